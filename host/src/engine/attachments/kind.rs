//! The types of files, by the ending of their names.

/// Endings and their types: types that chats show in their own way, and common documents.
const TYPES: &[(&str, &str)] = &[
    ("csv", "text/csv"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("log", "text/plain"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("zip", "application/zip"),
];

/// Returns the type of a file of this name.
pub fn of_name(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    TYPES.iter().find(|(known, _)| *known == ending).map_or("application/octet-stream", |(_, mime)| mime)
}

/// The longest name of a type, in bytes.
const MIME_BYTES_MAX: usize = 127;

/// Checks a type that another party named; `None`: it is malformed. An adapter puts the type into a header.
pub fn named(mime: &str) -> Option<String> {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    let is_name =
        |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&c));
    let (kind, form) = mime.split_once('/')?;
    (mime.len() <= MIME_BYTES_MAX && is_name(kind) && is_name(form)).then(|| mime.to_ascii_lowercase())
}

/// Returns the ending of names of this type, with its dot; empty for an unknown type.
pub fn ending_of(mime: &str) -> String {
    TYPES.iter().find(|(_, known)| *known == mime).map(|(ending, _)| format!(".{ending}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_what_a_file_is() {
        assert_eq!(of_name("a.b.PNG"), "image/png");
        assert_eq!(of_name("notes.txt"), "text/plain");
        assert_eq!(of_name("txt"), "application/octet-stream");
        assert_eq!(of_name("odd.zzz"), "application/octet-stream");
    }

    #[test]
    fn only_what_is_a_type_is_passed_on_as_one() {
        assert_eq!(named(" Image/PNG; charset=x").as_deref(), Some("image/png"));
        assert_eq!(named("application/vnd.a-b+json").as_deref(), Some("application/vnd.a-b+json"));
        let long = format!("a/{}", "b".repeat(200));
        for odd in ["image/p ng", "garbage", "", "/", "a/", "/b", "a/b/c", "a/b\r\nX: y", "a/\u{e9}", &long] {
            assert_eq!(named(odd), None, "{odd:?}");
        }
    }
}
