//! Unknown outcomes: nothing is lost, kept or mistaken.

use std::path::PathBuf;
use std::time::Duration;

use hermes_core::ids::DeliveryId;
use hermes_protocol::{Attachment, AttachmentKind, Chat, ChatType, Emitted, EventKind, Purpose, RefusalKind, Sender};
use serde_json::json;

use super::world::{Setting, World};
use crate::engine::accounts::Accounts;
use crate::engine::context::compose;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::outbox::Target;

/// Owes a message of the host to 7.
fn owes(world: &World, text: &str) -> DeliveryId {
    world.block_on(async {
        let host = world.host();
        let delivery = compose(host, "fake", Chat::dm("7"), Purpose::Cron, text.to_owned()).await;
        let id = host.store.owe(delivery.clone()).await.unwrap();
        host.carry(vec![id], vec![delivery]).await;
        id
    })
}

#[test]
fn a_chat_that_could_not_be_written_to_is_tried_again_after_half_an_hour_and_when_the_operator_wants_it() {
    let world = World::new();
    let talk = world.chat("7");
    world.platform.refuses(RefusalKind::Forbidden);
    owes(&world, "report");
    talk.hears(1);
    world.settled();
    owes(&world, "too soon");
    world.settled();
    assert_eq!(talk.heard(), ["report"]);
    world.passes(Duration::from_secs(31 * 60));
    world.platform.refuses(RefusalKind::Forbidden);
    let later = owes(&world, "later");
    assert_eq!(talk.hears(2)[1], "later");
    world.settled();
    let owed = world.block_on(world.host().store.outbox_retry(later)).unwrap();
    let target = Target::of("fake", &Chat::dm("7"));
    let refresh = Control::Refresh { target, owed: Some(Box::new(owed)), id: later };
    world.block_on(world.host().tell(HostEvent::control(refresh)));
    assert_eq!(talk.hears(3)[2], "later");
    world.settled();
}

#[test]
fn a_chat_moves_whoever_moved_it() {
    let world = World::new();
    let sessions = |world: &World| world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
    world.chat("7").says("here");
    world.chat("7").hears(1);
    world.settled();
    let before = sessions(&world);
    let mut moved = world.chat("7").event("").of_kind(EventKind::Migrated);
    moved.sender = Sender::new("a stranger");
    moved.migrated_to = Some("8".to_owned());
    world.chat("7").gives(&moved);
    world.chat("8").says("still me");
    world.chat("8").hears(1);
    world.settled();
    assert_eq!(sessions(&world)[0]["id"], before[0]["id"], "the conversation went along");
}

/// Returns a file that the adapter wrote.
pub(super) fn written(world: &World) -> (Attachment, PathBuf) {
    let slot = world.call("media.create", json!({ "name": "x.txt", "mime": "text/plain" })).unwrap();
    let (id, path) = (slot["id"].as_str().unwrap(), PathBuf::from(slot["path"].as_str().unwrap()));
    std::fs::write(&path, b"abc").unwrap();
    world.call("media.commit", json!({ "id": id })).unwrap();
    (Attachment::new(id, AttachmentKind::File, "text/plain", "x.txt", 3), path)
}

#[test]
fn the_file_of_whoever_may_not_speak_goes_with_the_event_and_that_of_others_stays() {
    let world = World::new();
    let (of_stranger, gone) = written(&world);
    let mut event = world.chat("99").event("look");
    event.attachments = vec![of_stranger];
    world.chat("99").gives(&event);
    world.until("the file is gone", || (!gone.exists()).then_some(()));

    let (mine, kept) = written(&world);
    let mut event = world.chat("7").event("look");
    event.attachments = vec![mine];
    world.chat("7").gives(&event);
    world.chat("7").hears(1);
    let (again, superfluous) = written(&world);
    event.attachments = vec![again];
    assert!(matches!(world.chat("7").gives(&event), Emitted::Duplicate { .. }));
    world.until("what was written once more is gone", || (!superfluous.exists()).then_some(()));
    // An event that names the file of another sender removes nothing.
    let mut event = world.chat("99").event("look");
    event.attachments = vec![Attachment::new(
        kept.file_name().unwrap().to_string_lossy(),
        AttachmentKind::File,
        "text/plain",
        "x.txt",
        3,
    )];
    world.chat("99").gives(&event);
    world.settled();
    assert!(kept.exists());
}

#[test]
fn the_file_of_what_a_group_says_to_nobody_goes_with_the_event() {
    let world = World::new();
    let (aside, gone) = written(&world);
    let group = world.talk(Chat::new(ChatType::Group, "-1"), "7");
    let mut event = group.event("look");
    event.attachments = vec![aside];
    group.gives(&event);
    world.until("the file is gone", || (!gone.exists()).then_some(()));
}

#[test]
fn files_that_nobody_was_admitted_with_are_bounded() {
    let world = World::new();
    let mut files = Vec::new();
    let refused = loop {
        match world.call("media.create", json!({ "name": "x", "mime": "text/plain" })) {
            Ok(slot) => files.push(slot["id"].as_str().unwrap().to_owned()),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code, "busy");
    let named = |id: &String| Attachment::new(id, AttachmentKind::File, "text/plain", "x", 0);
    let mut event = world.chat("99").event("look");
    event.attachments = files.iter().take(3).map(named).collect();
    world.chat("99").gives(&event);
    world.settled();
    for _ in 0..3 {
        world.call("media.create", json!({ "name": "x", "mime": "text/plain" })).unwrap();
    }
}

#[test]
fn a_part_with_files_has_more_time_the_more_bytes_they_are() {
    let mut capabilities = Setting::default().capabilities;
    capabilities["media"] = json!({ "out": true });
    let world = World::with(Setting { capabilities, ..Setting::default() });
    std::fs::create_dir_all(world.home().join("media")).unwrap();
    let path = world.home().join("media/large.bin");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    world.chat("7").says("words");
    world.chat("7").says(&format!("MEDIA:{}", path.display()));
    world.chat("7").hears(2);
    let times: Vec<_> = world.platform.sent().into_iter().map(|sent| sent.within_ms.unwrap()).collect();
    assert_eq!(times[0], 60_000);
    assert_eq!(times[1], 60_000 + (32 << 20) / 32_000 * 1_000);
}

#[test]
fn the_messages_and_values_of_another_account_are_its_own() {
    let world = World::new();
    let locks = |identity: &str| {
        let host = world.host();
        world.block_on(host.accounts.locked(&host.store, "fake", identity, true)).unwrap();
    };
    locks("bot a");
    let first = world.chat("7").event("hello");
    world.chat("7").gives(&first);
    world.call("kv.set", json!({ "key": "offset", "value": "40" })).unwrap();
    assert!(matches!(world.chat("7").gives(&first), Emitted::Duplicate { .. }));
    locks("bot b");
    assert_eq!(world.call("kv.get", json!({ "key": "offset" })).unwrap()["value"], json!(null));
    assert!(matches!(world.chat("7").gives(&first), Emitted::New { .. }), "its messages are counted from 1 again");
    locks("bot a");
    assert!(matches!(world.chat("7").gives(&first), Emitted::Duplicate { .. }));
    assert_eq!(world.call("kv.get", json!({ "key": "offset" })).unwrap()["value"], "40");
}

#[test]
fn another_credential_is_another_account_and_one_that_is_added_is_not() {
    let world = World::new();
    let store = &world.host().store;
    let accounts = Accounts::default();
    let locks = |accounts: &Accounts, identity: &str, is_first| {
        world.block_on(accounts.locked(store, "bot", identity, is_first)).unwrap();
        accounts.own("bot", "m:7:1")
    };
    assert_eq!(accounts.own("bot", "m:7:1"), "m:7:1", "whoever locks nothing is one account");
    assert_eq!(locks(&accounts, "a", true), "m:7:1");
    assert_eq!(locks(&accounts, "b", false), "m:7:1", "one was added");
    let next = Accounts::default();
    assert_eq!(locks(&next, "c", true), "m:7:1@1", "another one");
    assert_eq!(locks(&next, "b", true), "m:7:1", "an earlier one has what it had");
    let next = Accounts::default();
    assert_eq!(locks(&next, "d", true), "m:7:1@2");
    assert_eq!(locks(&next, "a", false), "m:7:1", "it was added to an earlier one, and is named first");
    assert_eq!(next.own("other", "m:7:1"), "m:7:1");
}
