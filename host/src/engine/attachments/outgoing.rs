//! Files of a text: lent to its adapter, or described in the text if the adapter cannot send them.
//!
//! Each part is one call of the platform, so that no attempt is half done. Files are sent with the text if it fits as
//! their caption, otherwise in parts of their own after it. If the platform takes one file at a time, each further file
//! is a part.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_core::delivery::{FileSource, ReplyMedia, take_media};
use hermes_core::ids::SessionId;
use hermes_markup::measure;
use hermes_protocol::{AttachmentKind, Capabilities, Chat, OutMedia, Purpose};

use crate::engine::attachments::fetch::FetchRules;
use crate::engine::attachments::is_id;
use crate::engine::attachments::lend::{From, OutError, renamed, shown_name};
use crate::engine::context::compose;
use crate::engine::reply::render::{counted, unit};
use crate::engine::runtime::Host;
use hermes_core::text::sentence;
use hermes_store::{NewDelivery, NewPart};

/// Files that one reply may have; the text names the rest.
const FILES_MAX: usize = 10;

/// Timeout for fetching all files of one reply.
const FETCH_ALL: Duration = Duration::from_secs(30);

/// The type of a file that platforms show only as a document.
const PLAIN_FILE: &str = "application/octet-stream";

/// Extracts the files that an agent names from its reply in this session. The text names the files that cannot be sent.
pub async fn from_reply(host: &Host, instance: &str, session: &SessionId, reply: String) -> (String, Vec<OutMedia>) {
    let ReplyMedia { said: mut text, files: named, as_documents, as_voice } = take_media(&reply);
    if named.is_empty() {
        return (text, Vec::new());
    }
    let until = tokio::time::Instant::now() + FETCH_ALL;
    let mut files = Vec::new();
    for source in named {
        if files.len() == FILES_MAX {
            let why = format!("a reply can have at most {FILES_MAX} files");
            say(&mut text, &not_attached(&name_of(source), &why));
            continue;
        }
        let lent = tokio::time::timeout_at(until, lend_source(host, instance, source)).await;
        match lent {
            Ok(Ok(Some(file))) => files.push(as_it_came(host, session, file).await),
            Ok(Ok(None)) => say(&mut text, &not_attached(&name_of(source), &no_files(instance))),
            Ok(Err(error)) => {
                tracing::warn!(instance, %error, "file of a reply not sent");
                say(&mut text, &why_not(host, instance, source, &error));
            }
            Err(_) => say(&mut text, &not_attached(&name_of(source), "the transfer timed out")),
        }
    }
    if as_documents {
        files.iter_mut().for_each(|file| PLAIN_FILE.clone_into(&mut file.mime));
    }
    let speaks = host.adapter(instance).is_some_and(|adapter| adapter.capabilities().voice);
    if as_voice && speaks && !as_documents {
        let recordings = files.iter_mut().filter(|file| file.mime.starts_with("audio/"));
        recordings.for_each(|file| file.kind = Some(AttachmentKind::Voice));
    }
    (text, files)
}

/// Renames a received file to its original name; its name in the media folder is random.
async fn as_it_came(host: &Host, session: &SessionId, file: OutMedia) -> OutMedia {
    if !is_id(&file.name) {
        return file;
    }
    match host.store.file_name(session, &file.name).await {
        Ok(Some(name)) => renamed(file, &name),
        Ok(None) => file,
        Err(error) => {
            tracing::warn!(%session, %error, "original name of a received file could not be read");
            file
        }
    }
}

/// Composes a text with one file for a sender who may send files of that folder.
///
/// # Errors
///
/// The reason for which the file cannot be sent. For an adapter without files, the text gets a sentence instead.
pub async fn one_file(
    host: &Host,
    instance: &str,
    chat: Chat,
    mut text: String,
    (file, from): (&Path, From),
) -> Result<NewDelivery, OutError> {
    let lent = match media_of(host, instance) {
        Some(bytes_max) => Some(host.media.lend(instance, file, from, bytes_max).await?),
        None => None,
    };
    if lent.is_none() {
        say(&mut text, &not_attached(&shown_name(file), &no_files(instance)));
    }
    Ok(with_files(host, instance, chat, Purpose::Reply, text, lent.into_iter().collect()).await)
}

/// Composes a text with lent files.
pub async fn with_files(
    host: &Host,
    instance: &str,
    chat: Chat,
    purpose: Purpose,
    text: String,
    files: Vec<OutMedia>,
) -> NewDelivery {
    let wordless = text.trim().is_empty() && !files.is_empty();
    let mut delivery = compose(host, instance, chat, purpose, text).await;
    if wordless {
        delivery.parts = vec![NewPart::plain(1, "")];
    }
    let can = host.adapter(instance).map(|adapter| adapter.capabilities()).unwrap_or_default();
    attach(&mut delivery.parts, files, &can);
    delivery
}

/// Attaches files to a text that fits as their caption, or else in parts after it.
fn attach(parts: &mut Vec<NewPart>, files: Vec<OutMedia>, can: &Capabilities) {
    let at_once = if can.media.albums { FILES_MAX } else { 1 };
    // A voice message belongs to no album.
    let is_spoken = |file: &OutMedia| file.kind == Some(AttachmentKind::Voice);
    let alike = files.chunk_by(|one, next| !is_spoken(one) && !is_spoken(next));
    let mut calls = alike.flat_map(|files| files.chunks(at_once)).map(<[OutMedia]>::to_vec);
    if let [only] = parts.as_mut_slice()
        && is_caption(only, can)
    {
        only.media = calls.next().unwrap_or_default();
    }
    for media in calls {
        let n = parts.last().map_or(1, |part| part.n + 1);
        parts.push(NewPart { media, ..NewPart::plain(n, "") });
    }
}

/// Returns whether a text fits as a caption.
fn is_caption(part: &NewPart, can: &Capabilities) -> bool {
    let limit = can.media.caption_limit as usize;
    limit == 0 || measure(counted(part, &can.text.dialect), unit(&can.text.unit)) <= limit
}

/// Returns the platform's limit of one file in bytes; `None`: it carries no files.
fn media_of(host: &Host, instance: &str) -> Option<u64> {
    let can = host.adapter(instance)?.capabilities();
    can.media.outbound.then_some(can.media.out_bytes_max)
}

/// Lends a copy to the adapter; `None`: it carries no files.
async fn lend_source(host: &Host, instance: &str, source: FileSource<'_>) -> Result<Option<OutMedia>, OutError> {
    let Some(bytes_max) = media_of(host, instance) else { return Ok(None) };
    let lent = match source {
        FileSource::Path(path) => {
            let from = From::Folders(host.live().session_of(instance).outbound_dirs.clone());
            host.media.lend(instance, &received(host, instance, path), from, bytes_max).await
        }
        FileSource::Url(address) => {
            let live = host.live();
            let rules = FetchRules {
                hosts: live.session_of(instance).media_hosts.clone(),
                proxy: live.config.host.proxy.settings.clone(),
            };
            host.media.fetch(instance, address, bytes_max, rules).await
        }
        FileSource::Data(data) => host.media.unpack(instance, data, bytes_max).await,
    };
    lent.map(Some)
}

/// Returns the path of a file that an agent names. A received file is found by its id, whatever its folder, because the
/// agent knows only the path from its own folder.
fn received(host: &Host, instance: &str, named: &str) -> PathBuf {
    let path = PathBuf::from(named);
    let id = path.file_name().and_then(|name| name.to_str()).filter(|id| is_id(id));
    match id {
        Some(id) if path.is_relative() => host.media.incoming(instance).join(id),
        _ => path,
    }
}

/// Returns the name of a file for a sentence.
fn name_of(source: FileSource<'_>) -> String {
    match source {
        FileSource::Path(named) => shown_name(Path::new(named)),
        FileSource::Url(named) => {
            let path = named.split(['?', '#']).next().unwrap_or_default();
            shown_name(Path::new(path))
        }
        FileSource::Data(_) => "file".to_owned(),
    }
}

/// Describes for the chat why a file is not sent, without the paths of this machine.
fn why_not(host: &Host, instance: &str, source: FileSource<'_>, error: &OutError) -> String {
    match error {
        OutError::TooLarge { name, size, bytes_max } => {
            let own = media_of(host, instance).is_some_and(|bound| bound == *bytes_max);
            let label = host.adapter(instance).map(|adapter| adapter.manifest().label.clone());
            let who = label.filter(|label| own && !label.is_empty()).unwrap_or_else(|| "this host".to_owned());
            too_large(name, *size, &who, *bytes_max)
        }
        OutError::NotFetched { source: why, .. } => not_attached(&name_of(source), &why.to_string()),
        OutError::NotData { why } => not_attached(&name_of(source), &format!("its inline data cannot be read: {why}")),
        _ => not_attached(&name_of(source), "the host cannot read it or is not allowed to send it"),
    }
}

fn too_large(name: &str, size: Option<u64>, who: &str, bytes_max: u64) -> String {
    let size = size.map(|size| format!(" ({})", megabytes(size))).unwrap_or_default();
    format!("{name}{size} is larger than {who} accepts ({}), so it is not attached.", megabytes(bytes_max))
}

/// Formats a size for users.
fn megabytes(bytes: u64) -> String {
    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    match bytes {
        0..KB => format!("{bytes} bytes"),
        KB..MB => format!("{} kB", bytes.div_ceil(KB)),
        _ => format!("{} MB", bytes.div_ceil(MB)),
    }
}

fn no_files(instance: &str) -> String {
    format!("{instance} does not support files")
}

fn not_attached(name: &str, why: &str) -> String {
    sentence(format!("The file \"{name}\" is not attached: {why}"))
}

fn say(text: &mut String, sentence: &str) {
    if !text.trim().is_empty() {
        text.truncate(text.trim_end().len());
        text.push_str("\n\n");
    }
    text.push_str(&format!("({sentence})"));
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{Dialect, Format, MediaCapability, TextLimit, TextUnit};

    use super::*;

    fn file(id: &str) -> OutMedia {
        OutMedia::new(id, "/x", "text/plain", "x.txt", 1)
    }

    fn can(albums: bool, caption_limit: u32) -> Capabilities {
        let mut can = Capabilities::default();
        can.text = TextLimit::new(100, TextUnit::Scalars, Dialect::Plain);
        can.media = MediaCapability::default();
        can.media.albums = albums;
        can.media.caption_limit = caption_limit;
        can
    }

    /// Returns number, text and count of files of each part.
    fn attached(texts: &[&str], files: usize, can: &Capabilities) -> Vec<(u32, String, usize)> {
        let mut parts: Vec<NewPart> = texts.iter().zip(1..).map(|(text, n)| NewPart::plain(n, *text)).collect();
        attach(&mut parts, (0..files).map(|n| file(&n.to_string())).collect(), can);
        parts.into_iter().map(|part| (part.n, part.text, part.media.len())).collect()
    }

    fn shape(parts: &[(u32, &str, usize)]) -> Vec<(u32, String, usize)> {
        parts.iter().map(|(n, text, files)| (*n, (*text).to_owned(), *files)).collect()
    }

    #[test]
    fn what_is_spoken_is_a_part_of_its_own_between_albums() {
        let mut parts = vec![NewPart::plain(1, "hello")];
        let voice = file("v").shown_as(AttachmentKind::Voice);
        attach(&mut parts, vec![file("a"), file("b"), voice.clone(), voice, file("c")], &can(true, 0));
        let shape: Vec<_> =
            parts.iter().map(|part| part.media.iter().map(|f| f.id.as_str()).collect::<String>()).collect();
        assert_eq!(shape, ["ab", "v", "v", "c"]);
    }

    #[test]
    fn an_album_is_one_part_with_its_caption() {
        assert_eq!(attached(&["look"], 3, &can(true, 10)), shape(&[(1, "look", 3)]));
    }

    #[test]
    fn where_one_file_goes_at_a_time_each_further_one_is_a_part() {
        assert_eq!(attached(&["look"], 3, &can(false, 0)), shape(&[(1, "look", 1), (2, "", 1), (3, "", 1)]));
    }

    #[test]
    fn a_text_that_is_no_caption_goes_before_the_files() {
        let long = "longer than ten";
        assert_eq!(attached(&[long], 2, &can(true, 10)), shape(&[(1, long, 0), (2, "", 2)]));
        assert_eq!(attached(&["one", "two"], 2, &can(true, 10)), shape(&[(1, "one", 0), (2, "two", 0), (3, "", 2)]));
    }

    #[test]
    fn a_caption_counts_in_the_unit_of_the_platform_and_where_it_does_so_without_its_markup() {
        let mut can = can(true, 4);
        can.text.unit = TextUnit::Utf16;
        let part = |text: &str, source: &str| NewPart {
            n: 1,
            text: text.to_owned(),
            format: Format::TelegramHtml,
            source: source.to_owned(),
            media: Vec::new(),
            key: String::new(),
        };
        assert!(
            is_caption(&part("\u{1f980}\u{1f980}", ""), &can) && !is_caption(&part("\u{1f980}\u{1f980}!", ""), &can)
        );
        can.text.dialect = Dialect::Telegram;
        assert!(is_caption(&part("<b>look</b>", "look"), &can));
    }

    #[test]
    fn a_file_that_is_too_large_is_told_with_both_sizes() {
        let mb = |count: u64| count << 20;
        assert_eq!(
            too_large("report.zip", Some(mb(73)), "Telegram", mb(50)),
            "report.zip (73 MB) is larger than Telegram accepts (50 MB), so it is not attached."
        );
        assert_eq!(
            too_large("a.bin", None, "this host", 2_000),
            "a.bin is larger than this host accepts (2 kB), so it is not attached."
        );
    }
}
