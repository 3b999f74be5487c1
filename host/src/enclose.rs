//! Files that go with a text: lent to its adapter, or put into words where they cannot go.

use std::path::{Path, PathBuf};

use hermes_core::delivery::take_media;
use hermes_protocol::{Chat, OutMedia, Purpose};

use crate::context::compose;
use crate::host::Host;
use crate::media::out::{From, OutError, shown_name};
use crate::store::{NewDelivery, NewPart};

/// Files that one reply may have; the rest is told.
const FILES_MAX: usize = 10;

/// Takes the files that an agent names out of its reply. What cannot be sent is said instead.
pub async fn from_reply(host: &Host, instance: &str, reply: String) -> (String, Vec<OutMedia>) {
    let (mut text, paths) = match take_media(&reply) {
        (_, paths) if paths.is_empty() => return (reply, Vec::new()),
        (text, paths) => (text, paths.into_iter().map(PathBuf::from).collect::<Vec<_>>()),
    };
    let mut files = Vec::new();
    for path in paths {
        let from = From::Folders(host.live().session_of(instance).outbound_dirs.clone());
        let why = if files.len() == FILES_MAX {
            format!("at most {FILES_MAX} files go with one reply")
        } else {
            match lend(host, instance, &path, from).await {
                Ok(Some(file)) => {
                    files.push(file);
                    continue;
                }
                Ok(None) => no_files(instance),
                Err(error) => {
                    tracing::warn!(instance, %error, "a file of a reply is not sent");
                    "the host may not send it or cannot read it".to_owned()
                }
            }
        };
        say(&mut text, &path, &why);
    }
    (text, files)
}

/// A text with one file, as the operator wants it sent.
///
/// # Errors
///
/// Why the file cannot be sent. An adapter that carries no files gets a sentence instead.
pub async fn for_operator(
    host: &Host,
    instance: &str,
    chat: Chat,
    mut text: String,
    file: &Path,
) -> Result<NewDelivery, OutError> {
    let lent = lend(host, instance, file, From::Anywhere).await?;
    if lent.is_none() {
        say(&mut text, file, &no_files(instance));
    }
    Ok(with_files(host, instance, chat, Purpose::Reply, text, lent.into_iter().collect()).await)
}

/// Composes a text with files that were lent.
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
    let albums = host.adapter(instance).is_some_and(|adapter| adapter.capabilities().media.albums);
    attach(&mut delivery.parts, files, albums);
    delivery
}

/// The files go with the first part; where the platform takes one at a time, each further one is a part.
fn attach(parts: &mut Vec<NewPart>, files: Vec<OutMedia>, albums: bool) {
    let mut files = files.into_iter();
    let with_the_text: Vec<OutMedia> = if albums { files.by_ref().collect() } else { files.by_ref().take(1).collect() };
    if let Some(first) = parts.first_mut() {
        first.media = with_the_text;
    }
    for file in files {
        let n = parts.last().map_or(1, |part| part.n + 1);
        parts.push(NewPart { media: vec![file], ..NewPart::plain(n, "") });
    }
}

/// A copy for the adapter; `None` where it carries no files.
async fn lend(host: &Host, instance: &str, path: &Path, from: From) -> Result<Option<OutMedia>, OutError> {
    let media = host.adapter(instance).map(|adapter| adapter.capabilities().media.clone()).unwrap_or_default();
    if !media.outbound {
        return Ok(None);
    }
    host.media.lend(instance, path, from, media.out_bytes_max).await.map(Some)
}

fn no_files(instance: &str) -> String {
    format!("{instance} carries no files")
}

fn say(text: &mut String, path: &Path, why: &str) {
    if !text.trim().is_empty() {
        text.truncate(text.trim_end().len());
        text.push_str("\n\n");
    }
    text.push_str(&format!("(The file \"{}\" is not attached: {why}.)", shown_name(path)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: &str) -> OutMedia {
        OutMedia::new(id, "/x", "text/plain", "x.txt", 1)
    }

    #[test]
    fn an_album_goes_with_the_text_and_single_files_follow_it() {
        let parts = || vec![NewPart::plain(1, "one"), NewPart::plain(2, "two")];
        let shape = |parts: &[NewPart]| -> Vec<(u32, usize)> { parts.iter().map(|p| (p.n, p.media.len())).collect() };
        let mut album = parts();
        attach(&mut album, vec![file("a"), file("b")], true);
        assert_eq!(shape(&album), [(1, 2), (2, 0)]);
        let mut single = parts();
        attach(&mut single, vec![file("a"), file("b")], false);
        assert_eq!(shape(&single), [(1, 1), (2, 0), (3, 1)]);
    }
}
