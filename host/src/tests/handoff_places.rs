//! The chat in which a handed-over conversation continues: the key of the next message of a person equals the key that
//! the handoff has bound, whichever chat was asked for and whatever the platform makes of it.

use hermes_core::handoff::HandoffState;
use hermes_core::ids::SessionId;
use hermes_protocol::{Chat, ChatType, method};
use serde_json::{Value, json};

use super::handoff::{begun, ends, moves, setting, stands, transcript, world};
use super::world::{Setting, World};
use crate::engine::handoff;
use hermes_store::HandoffRow;

/// Creates a platform that opens threads and resolves ids; 7 and 8 may write, and nobody has to mention the agent.
fn platform() -> World {
    let mut setting = setting(true);
    setting.capabilities["resolve_target"] = json!(true);
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }\nsession = { require_mention = false }";
    World::with(Setting { section: section.to_owned(), ..setting })
}

/// Hands a conversation over to a named chat.
fn moves_to(world: &World, session: &SessionId, target: &str) -> HandoffRow {
    world.block_on(handoff::request(world.host(), session.as_str(), target)).unwrap();
    ends(world, session)
}

/// Returns the answer in `chat` to `text` of 7, after `count` earlier messages there.
fn answer(world: &World, chat: &Chat, text: &str, count: usize) -> String {
    world.talk(chat.clone(), "7").says(text);
    world.talk(chat.clone(), "7").hears(count + 1).remove(count)
}

#[test]
fn the_next_message_of_a_person_finds_the_conversation_wherever_it_was_handed_to() {
    let group = || Chat::new(ChatType::Group, "T1/C1");
    let dm = || Chat::dm("T1/D1");
    let mut post = Chat::new(ChatType::Thread, "99").in_thread("99");
    post.parent = Some("10".to_owned());
    let forum = || Chat::new(ChatType::Group, "10");
    // The resolved chat of the target, the thread that is opened in it, and the chat of the next message.
    let cases: &[(&str, Chat, Option<Chat>, Chat)] = &[
        ("C1", group(), Some(group().in_thread("17.5")), group().in_thread("17.5")),
        ("C1", group(), None, group()),
        ("C1", group(), None, group().in_thread("18.0")),
        ("U1", dm(), Some(dm().in_thread("17.5")), dm().in_thread("17.5")),
        ("U1", dm(), Some(dm().in_thread("17.5")), dm().in_thread("18.0")),
        ("U1", dm(), Some(dm().in_thread("17.5")), dm()),
        ("U1", dm(), None, dm().in_thread("18.0")),
        ("U1", dm(), None, dm()),
        ("10", forum(), Some(post.clone()), post.clone()),
        ("10", forum(), None, post.clone()),
        ("10", Chat::new(ChatType::Channel, "10"), None, post),
        ("C1:17.5", group().in_thread("17.5"), Some(group().in_thread("19")), group().in_thread("17.5")),
    ];
    for (target, read, thread, next) in cases {
        let case = format!("{target} is {read:?}, opens {thread:?}, {next:?} speaks");
        let world = platform();
        world.platform.answers_to(method::RESOLVE_TARGET, json!(read));
        world.platform.answers_to(method::CREATE_HANDOFF_THREAD, json!(thread));
        let session = begun(&world, "boats");
        let row = moves_to(&world, &session, &format!("fake:{target}"));
        let bound = if read.thread.is_some() { read } else { thread.as_ref().unwrap_or(read) };
        assert_eq!((row.state, row.chat.as_ref()), (HandoffState::Completed, Some(bound)), "{case}");
        let opened = world.platform.asked(method::CREATE_HANDOFF_THREAD);
        assert_eq!(opened.len(), usize::from(read.thread.is_none()), "{case}: a thread needs none of its own");
        let before = world.talk(next.clone(), "7").heard().len();
        assert!(answer(&world, next, "and now?", before).ends_with("and now? (after 3)"), "{case}");
        world.settled();
        assert!(transcript(&world, &session).iter().any(|said| said.ends_with("and now? (after 3)")), "{case}");
        world.talk(next.clone(), "7").says("/new");
        world.talk(next.clone(), "7").hears(before + 2);
        assert!(answer(&world, next, "fresh", before + 2).ends_with("fresh (after 0)"), "{case}: `/new` there ends it");
    }
}

#[test]
fn a_conversation_of_its_own_keeps_its_thread_when_another_is_handed_over_to_its_chat() {
    let world = platform();
    let (dm, old) = (Chat::dm("D1"), Chat::dm("D1").in_thread("1.0"));
    assert_eq!(answer(&world, &old, "before", 0), "before (after 0)");
    world.settled();
    world.platform.answers_to(method::RESOLVE_TARGET, json!(dm));
    world.platform.answers_to(method::CREATE_HANDOFF_THREAD, Value::Null);
    let row = moves_to(&world, &begun(&world, "boats"), "fake:D1");
    assert_eq!((row.state, row.chat), (HandoffState::Completed, Some(dm.clone())));
    assert_eq!(answer(&world, &old, "on", 1), "on (after 2)");
    assert_eq!(answer(&world, &dm.clone().in_thread("2.0"), "and now?", 0), "and now? (after 3)");
}

#[test]
fn a_thread_of_a_handed_over_group_needs_one_mention() {
    let mut setting = setting(true);
    setting.capabilities["group_default"] = json!("addressed");
    let world = world(setting);
    let group = Chat::new(ChatType::Group, "C1");
    world.talk(group.clone(), "7").gives(&{
        let mut event = world.talk(group.clone(), "7").event("/sethome");
        event.addressed.command = true;
        event
    });
    world.talk(group.clone(), "7").hears(1);
    world.platform.answers_to(method::CREATE_HANDOFF_THREAD, Value::Null);
    assert_eq!(moves(&world, &begun(&world, "boats")).state, HandoffState::Completed);
    let thread = world.talk(group.in_thread("9"), "7");
    let mut event = thread.event("hello");
    event.addressed.mention = true;
    thread.gives(&event);
    thread.hears(1);
    thread.says("no mention");
    assert!(thread.hears(2)[1].ends_with("no mention (after 5)"));
}

#[test]
fn a_second_claim_asks_for_the_thread_of_the_named_chat_with_the_same_key() {
    let mut world = platform();
    let (group, thread) = (Chat::new(ChatType::Group, "C1"), Chat::new(ChatType::Group, "C1").in_thread("9"));
    let session = begun(&world, "boats");
    let (host, now_ms) = (world.host().clone(), world.host().now_ms());
    world.block_on(host.store.handoff_request_to(&session, "fake", Some(group), now_ms)).unwrap();
    world.block_on(host.store.handoff_claim(&session, host.epoch, now_ms)).unwrap().unwrap();
    drop(host);
    world.platform.answers_to(method::CREATE_HANDOFF_THREAD, json!(thread));
    world.crash();
    world.start();
    world.is_ready();
    let row = ends(&world, &session);
    assert_eq!((row.state, row.attempts, row.chat), (HandoffState::Completed, 2, Some(thread.clone())));
    assert_eq!(answer(&world, &thread, "and now?", 1), "[7] and now? (after 3)");
}

#[test]
fn a_reset_of_a_handed_over_group_begins_one_conversation_for_everybody() {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }\n\
                   session = { require_mention = false, reset = { mode = \"idle\", idle_minutes = 60, notify = false } }";
    let mut world = World::with(Setting { section: section.to_owned(), ..setting(false) });
    let group = Chat::new(ChatType::Group, "g");
    answer(&world, &group, "/sethome", 0);
    assert_eq!(moves(&world, &begun(&world, "boats")).state, HandoffState::Completed);
    world.settled();
    // The host restarts, so that no conversation is in use.
    world.stop();
    world.start();
    world.passes(std::time::Duration::from_secs(2 * 3_600));
    assert_eq!(answer(&world, &group, "one", 2), "[7] one (after 0)");
    world.talk(group.clone(), "8").says("two");
    assert_eq!(world.talk(group, "8").hears(4)[3], "[8] two (after 2)");
}

#[test]
fn an_opening_turn_that_fails_fails_the_handoff_and_leaves_everything_as_it_was() {
    for (stream, title) in [("off", "fail"), ("auto", "fail"), ("auto", "fail late")] {
        let mut setting = setting(false);
        setting.capabilities["edit"] = json!(true);
        let section = format!("access = {{ allowed_users = [\"7\"] }}\nstream = \"{stream}\"");
        let world = world(Setting { section, ..setting });
        world.chat("7").says("before");
        world.chat("7").hears(2);
        world.settled();
        let session = begun(&world, title);
        let row = moves(&world, &session);
        let why = "the agent failed in the new chat (model_unreachable: connection refused)";
        assert_eq!(row.state, HandoffState::Failed { why: why.to_owned() }, "{stream} {title}");
        assert!(handoff::info(&row).message.contains(why));
        world.settled();
        assert_eq!(transcript(&world, &session), ["of boats"], "the conversation is as it was");
        assert_eq!(world.block_on(world.host().store.session_in_use(&session)).unwrap(), None);
        let heard = world.chat("7").heard().len();
        world.chat("7").says("after");
        assert_eq!(world.chat("7").hears(heard + 1)[heard], "after (after 2)", "and so is the chat");
        let said = world.platform.screen().join("\n");
        assert!(!said.contains("I was about") || said.contains("The model cannot be reached."), "{said}");
        assert!(!stands(&world, &session).is_there);
    }
}
