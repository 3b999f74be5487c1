//! What a file is, by the end of its name.

/// Endings and their types: what chats show in a way of their own, and common documents.
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

/// The type of a file of this name.
pub fn of_name(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    TYPES.iter().find(|(known, _)| *known == ending).map_or("application/octet-stream", |(_, mime)| mime)
}

/// What stands at the end of the name of a file of this type, with its dot; empty for a type nobody knows.
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
}
