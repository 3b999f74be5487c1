//! Files of an answer.

use std::path::Path;
use std::time::Duration;

use hermes_protocol::{Attachment, AttachmentKind, Chat, OutMedia};
use serde_json::json;

use super::world::{Setting, World};
use crate::engine::attachments::lend::{From, OutError};
use crate::engine::attachments::outgoing;

/// Creates a platform that takes files, and a file in the media folder.
fn world(media: serde_json::Value) -> World {
    let mut capabilities = Setting::default().capabilities;
    capabilities["media"] = media;
    let world = World::with(Setting { capabilities, ..Setting::default() });
    std::fs::create_dir_all(world.home().join("media")).unwrap();
    std::fs::write(world.home().join("media/x.txt"), b"abc").unwrap();
    world
}

fn for_operator(world: &World, path: &Path) -> Result<Vec<OutMedia>, OutError> {
    let sent = outgoing::one_file(world.host(), "fake", Chat::dm("7"), "look".to_owned(), (path, From::Anywhere));
    world.block_on(sent).map(|delivery| delivery.parts.into_iter().flat_map(|part| part.media).collect())
}

#[test]
fn a_reply_takes_along_the_file_that_it_names() {
    let world = world(json!({ "out": true }));
    let chat = world.chat("7");
    chat.says(&format!("look\nMEDIA:{}", world.home().join("media/x.txt").display()));
    chat.hears(1);
    world.settled();
    let sent = world.platform.sent().remove(0);
    assert_eq!(sent.text.trim(), "look");
    let [file] = sent.media.as_slice() else { panic!("one file: {:?}", sent.media) };
    assert_eq!((file.name.as_str(), file.mime.as_str(), file.size), ("x.txt", "text/plain", 3));
    assert_eq!(std::fs::read(&file.path).unwrap(), b"abc");
}

#[test]
fn a_file_that_came_in_goes_out_under_the_name_with_which_it_came() {
    let world = world(json!({ "out": true }));
    let chat = world.chat("7");
    let (file, path) = super::doubts::written(&world);
    let mut event = chat.event(&format!("MEDIA:{}", path.display()));
    event.attachments = vec![file];
    chat.gives(&event);
    chat.hears(1);
    world.settled();
    chat.says(&format!("once more\nMEDIA:{}", path.display()));
    chat.hears(2);
    let sent = world.platform.sent();
    let files = sent.iter().flat_map(|sent| &sent.media).map(|file| (file.name.as_str(), file.mime.as_str()));
    assert_eq!(files.collect::<Vec<_>>(), [("x.txt", "text/plain"); 2]);
}

#[test]
fn a_recording_is_spoken_where_the_platform_has_voice_messages_and_is_a_file_elsewhere() {
    let sent = |voice: bool, words: &str| {
        let mut capabilities = Setting::default().capabilities;
        capabilities["media"] = json!({ "out": true, "albums": true });
        capabilities["voice"] = json!(voice);
        let world = World::with(Setting { capabilities, ..Setting::default() });
        std::fs::create_dir_all(world.home().join("media")).unwrap();
        let media = |name: &str| {
            std::fs::write(world.home().join("media").join(name), b"OggS").unwrap();
            format!("MEDIA:{}", world.home().join("media").join(name).display())
        };
        let reply = format!("{words}listen\n{}\n{}", media("a.ogg"), media("b.txt"));
        world.chat("7").says(&reply);
        world.settled();
        let sent = world.platform.sent();
        assert!(sent.iter().all(|sent| !sent.text.contains("[[")), "{sent:?}");
        sent.into_iter()
            .map(|sent| sent.media.into_iter().map(|file| (file.name, file.kind)).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let (a, b) = (|kind| ("a.ogg".to_owned(), kind), ("b.txt".to_owned(), None));
    let apart: Vec<Vec<_>> = vec![vec![a(Some(AttachmentKind::Voice))], vec![b.clone()]];
    assert_eq!(sent(true, "[[audio_as_voice]]\n"), apart, "what is spoken stands in no album");
    let together: Vec<Vec<_>> = vec![vec![a(None), b]];
    assert_eq!(sent(false, "[[audio_as_voice]]\n"), together);
    assert_eq!(sent(true, ""), together);
    assert_eq!(sent(true, "[[audio_as_voice]]\n[[as_document]]\n"), together);
}

#[test]
fn a_file_alone_needs_no_words() {
    let world = world(json!({ "out": true }));
    let chat = world.chat("7");
    chat.says(&format!("MEDIA:{}", world.home().join("media/x.txt").display()));
    chat.hears(1);
    let sent = world.platform.sent().remove(0);
    assert_eq!((sent.text.as_str(), sent.media.len()), ("", 1));
}

#[test]
fn a_reply_takes_nothing_from_elsewhere_and_says_so() {
    let world = world(json!({ "out": true }));
    let chat = world.chat("7");
    chat.says(&format!("look\nMEDIA:{}", world.home().join("state.db").display()));
    let heard = chat.hears(1).remove(0);
    assert!(heard.starts_with("look\n\n(The file \"state.db\" is not attached"), "{heard}");
    assert!(world.platform.sent().remove(0).media.is_empty());
}

#[test]
fn a_platform_without_files_gets_a_sentence_instead() {
    let world = world(json!({ "out": false }));
    let file = world.home().join("media/x.txt");
    let delivery = outgoing::one_file(world.host(), "fake", Chat::dm("7"), "look".to_owned(), (&file, From::Anywhere));
    let delivery = world.block_on(delivery).unwrap();
    assert_eq!(delivery.markdown, "look\n\n(The file \"x.txt\" is not attached: fake does not support files.)");
    assert!(delivery.parts.iter().all(|part| part.media.is_empty()));
}

#[test]
fn the_operator_sends_from_anywhere_within_the_bound_of_the_platform() {
    let world = world(json!({ "out": true, "out_bytes_max": 8 }));
    std::fs::write(world.home().join("small.txt"), b"12345678").unwrap();
    std::fs::write(world.home().join("large.txt"), b"123456789").unwrap();
    assert_eq!(for_operator(&world, &world.home().join("small.txt")).unwrap().len(), 1);
    let refused = for_operator(&world, &world.home().join("large.txt")).unwrap_err();
    assert!(matches!(refused, OutError::TooLarge { bytes_max: 8, .. }), "{refused}");
}

#[test]
fn a_file_is_in_use_until_what_names_it_is_settled() {
    let world = world(json!({ "out": true }));
    world.set_online(false);
    let chat = world.chat("7");
    chat.says(&format!("look\nMEDIA:{}", world.home().join("media/x.txt").display()));
    let in_use = || world.block_on(world.host().store.media_in_use()).unwrap();
    world.until("the reply is owed", || (in_use().len() == 1).then_some(()));
    let host = world.host();
    let began_ms = host.now_ms();
    let sweep = |days: i64| {
        let later_ms = began_ms + days * 86_400_000;
        world.block_on(host.media.sweep(&host.store, later_ms, Duration::from_secs(3_600))).unwrap()
    };
    assert_eq!(sweep(1), 0, "what is owed is kept");
    world.set_online(true);
    chat.hears(1);
    world.settled();
    assert!(in_use().is_empty());
    assert_eq!(sweep(2), 1, "then only its time counts");
}

#[test]
fn an_album_with_a_caption_is_one_call_and_a_longer_text_goes_before_it() {
    let world = world(json!({ "out": true, "albums": true, "caption_limit": 10 }));
    std::fs::write(world.home().join("media/y.txt"), b"def").unwrap();
    let chat = world.chat("7");
    let named = |name: &str| format!("MEDIA:{}", world.home().join("media").join(name).display());
    chat.says(&format!("look\n{}\n{}", named("x.txt"), named("y.txt")));
    chat.hears(1);
    chat.says(&format!("longer than a caption\n{}\n{}", named("x.txt"), named("y.txt")));
    chat.hears(3);
    let seen: Vec<_> =
        world.platform.sent().iter().map(|sent| (sent.text.trim().to_owned(), sent.media.len())).collect();
    let expected = [("look", 2), ("longer than a caption", 0), ("", 2)].map(|(text, files)| (text.to_owned(), files));
    assert_eq!(seen, expected);
}

#[test]
fn a_file_that_the_platform_does_not_take_is_told_with_both_sizes() {
    let world = world(json!({ "out": true, "out_bytes_max": 2 << 20 }));
    std::fs::write(world.home().join("media/report.zip"), vec![0; 3 << 20]).unwrap();
    let chat = world.chat("7");
    chat.says(&format!("look\nMEDIA:{}", world.home().join("media/report.zip").display()));
    assert_eq!(
        chat.hears(1)[0],
        "look\n\n(report.zip (3 MB) is larger than Fake accepts (2 MB), so it is not attached.)"
    );
}

#[test]
fn an_address_that_leads_into_this_machine_is_not_fetched_and_that_is_said() {
    let world = world(json!({ "out": true }));
    let chat = world.chat("7");
    chat.says("look\nMEDIA:http://127.0.0.1:9/secret.txt");
    let heard = chat.hears(1).remove(0);
    assert!(heard.starts_with(
        "look\n\n(The file \"secret.txt\" is not attached: fetching from http://127.0.0.1:9 is not allowed"
    ));
    assert!(world.platform.sent().remove(0).media.is_empty());
}

#[test]
fn a_file_that_is_written_out_goes_along_and_as_a_document_where_that_is_asked() {
    let world = world(json!({ "out": true }));
    let chat = world.chat("7");
    chat.says("look\nMEDIA:data:image/png;base64,YWJj\n[[as_document]]");
    chat.hears(1);
    let sent = world.platform.sent().remove(0);
    assert_eq!(sent.text.trim(), "look");
    let file = &sent.media[0];
    assert_eq!((file.name.as_str(), file.mime.as_str(), file.size), ("file.png", "application/octet-stream", 3));
}

#[test]
fn several_files_that_came_in_are_named_and_what_is_missing_with_the_reason() {
    let world = world(json!({ "in": true }));
    let chat = world.chat("7");
    let slot = world.call("media.create", json!({ "name": "cat.png", "mime": "image/png", "size": 3 })).unwrap();
    std::fs::write(slot["path"].as_str().unwrap(), b"abc").unwrap();
    let id = slot["id"].as_str().unwrap();
    world.call("media.commit", json!({ "id": id })).unwrap();
    let mut event = chat.event("look");
    event.attachments = vec![
        Attachment::new(id, AttachmentKind::Image, "image/png", "cat.png", 3),
        Attachment::missing(AttachmentKind::File, "big.iso", 9, "it is larger than this host takes"),
    ];
    chat.gives(&event);
    let mut heard = chat.hears(2);
    let notice = "I could not receive `big.iso` (it is larger than this host takes). Please send it again, smaller or as a link.";
    assert_eq!(heard[0], notice);
    let heard = heard.remove(1);
    assert!(heard.contains("[attached image \"cat.png\", image/png, 3 bytes]"), "{heard}");
    assert!(heard.contains("big.iso") && heard.contains("not available: it is larger than this host takes"), "{heard}");
}
