//! A handoff and other events of its conversation: late ends, a summary in progress, and users at the terminal that it
//! leaves.

use hermes_core::handoff::HandoffState;
use hermes_core::ids::SessionId;
use hermes_core::session::SessionKey;
use hermes_protocol::Chat;
use serde_json::json;

use super::handoff::{asks, begun, ends, moves, offered, setting, world};
use super::terminal::Terminal;
use super::world::{Setting, World};
use crate::engine::messages::{Control, HostEvent};
use hermes_loader::terminal::SeatFor;
use hermes_store::{HandoffClaim, HandoffRoutes};

/// Returns the session that continues in the terminal.
fn session_of(terminal: &mut Terminal<'_>) -> SessionId {
    let (_, listed) = terminal.asks("sessions.list", json!({ "limit": 20 }));
    SessionId(listed[0]["id"].as_str().unwrap().to_owned())
}

fn tell(world: &World, control: Control) {
    world.block_on(world.host().tell(HostEvent::control(control)));
}

#[test]
fn the_late_end_of_an_earlier_handoff_leaves_the_chat_to_a_later_one() {
    let world = world(setting(false));
    let session = begun(&world, "boats");
    let row = moves(&world, &session);
    assert_eq!(row.state, HandoffState::Completed);
    let bound = SessionKey::shared("main", "fake", &Chat::dm("7")).unwrap().stored();
    let routes = || Box::new(HandoffRoutes { bound: bound.clone(), before: Vec::new() });
    let earlier = HandoffClaim { asked_ms: row.asked_ms - 1, attempts: 1 };
    tell(&world, Control::LeadBack { session: session.clone(), claim: earlier, routes: routes() });
    world.chat("7").says("still here?");
    assert_eq!(world.chat("7").hears(3)[2], "still here? (after 3)");
    tell(&world, Control::LeadBack { session, claim: row.claim(), routes: routes() });
    world.chat("7").says("and now?");
    assert_eq!(world.chat("7").hears(4)[3], "and now? (after 0)", "its own end leads the chat back");
}

#[test]
fn a_handoff_waits_for_no_summary_and_none_is_written_while_it_is_on_its_way() {
    let world = world(setting(false));
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    for text in ["one", "two"] {
        let said = terminal.says(text);
        terminal.delivered(said);
    }
    let session = session_of(&mut terminal);
    let compress = terminal.says("/compress");
    let status = terminal.says("/status");
    assert!(terminal.delivered(status)["text"].as_str().unwrap().contains("Now: working"), "it is being summed up");
    asks(&world, &session).unwrap();
    let words = terminal.delivered(compress)["text"].clone();
    assert_eq!(
        words, "Not compressed: a handoff of the conversation has started. The conversation is unchanged.",
        "and the summary, which would never end, is waited for no more"
    );
    assert_eq!(ends(&world, &session).state, HandoffState::Completed);
    assert_eq!(world.chat("7").hears(2)[1], "I am here (after 4)");
}

/// Returns the notices to a terminal, including the replies to rejected messages.
fn notices(terminal: &Terminal<'_>) -> Vec<String> {
    let notices = terminal.seen.iter().filter(|seen| seen["purpose"] == "notice");
    notices.filter_map(|seen| seen["text"].as_str().map(str::to_owned)).collect()
}

fn hears(terminal: &mut Terminal<'_>, count: usize) -> String {
    let is_notice = |seen: &&serde_json::Value| seen["purpose"] == "notice";
    terminal.wait("a notice", |seen| seen.iter().filter(is_notice).count() >= count);
    notices(terminal).swap_remove(count - 1)
}

#[test]
fn a_terminal_whose_conversation_was_handed_over_says_where_it_is_until_another_is_begun_on_purpose() {
    let world = world(setting(false));
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let said = terminal.says("one");
    terminal.delivered(said);
    let session = session_of(&mut terminal);
    assert_eq!(moves(&world, &session).state, HandoffState::Completed);
    terminal.says("is anybody here?");
    let words = hears(&mut terminal, 1);
    assert!(words.starts_with("Message not sent: this conversation continues in fake:7."), "{words}");
    assert!(words.contains("`/return` there") && words.contains(&format!("`/resume {session}`")), "{words}");
    terminal.says("/queue and now?");
    assert!(hears(&mut terminal, 2).starts_with("Message not sent"), "words behind a command are words");
    assert_eq!(session_of(&mut terminal), session, "nothing was begun");
    let new = terminal.says("/new");
    terminal.delivered(new);
    let said = terminal.says("of cars");
    assert_eq!(terminal.delivered(said)["text"], "of cars (after 0)");
    assert_ne!(session_of(&mut terminal), session);
}

#[test]
fn a_conversation_that_is_given_back_goes_on_at_the_terminal_that_waited_for_it() {
    let world = world(setting(false));
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let said = terminal.says("one");
    terminal.delivered(said);
    let session = session_of(&mut terminal);
    assert_eq!(moves(&world, &session).state, HandoffState::Completed);
    world.chat("7").says("/return");
    assert!(world.chat("7").hears(3)[2].contains("is back in the terminal"));
    assert_eq!(hears(&mut terminal, 1), "The conversation that was handed off is back here.");
    let said = terminal.says("two");
    assert_eq!(terminal.delivered(said)["text"], "two (after 4)");
    let told = crate::engine::handoff::info(&world.block_on(world.host().store.handoff(&session)).unwrap().unwrap());
    assert!(told.message.contains("later moved elsewhere"), "{}", told.message);
}

#[test]
fn a_handoff_that_fails_leaves_the_terminal_in_its_conversation() {
    let world = world(setting(false));
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    for text in ["one", "/title hang"] {
        let said = terminal.says(text);
        terminal.delivered(said);
    }
    let session = session_of(&mut terminal);
    asks(&world, &session).unwrap();
    world.until("the turn that opens it runs", || {
        let row = world.block_on(world.host().store.handoff(&session)).unwrap().unwrap();
        row.inbox.map(drop)
    });
    let status = terminal.says("/status");
    terminal.delivered(status);
    world.block_on(crate::engine::handoff::cancel(world.host(), session.as_str())).unwrap();
    let status = terminal.says("/status");
    let words = terminal.delivered(status)["text"].to_string();
    assert!(words.contains(session.as_str()), "{words}");
}

#[test]
fn a_terminal_hears_once_that_its_conversation_was_claimed_and_the_claim_is_listed() {
    let section = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\"] }";
    let world = world(Setting { section: section.to_owned(), ..setting(false) });
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let said = terminal.says("one");
    terminal.delivered(said);
    let session = session_of(&mut terminal);
    let code = offered(&world, &session);
    world.chat("8").says(&format!("/claim {code}"));
    assert!(world.chat("8").hears(1)[0].contains("Back in"));
    let told = hears(&mut terminal, 1);
    assert!(told.starts_with("This conversation was also opened in fake:8; "), "{told}");
    world.chat("8").says("on");
    assert_eq!(world.chat("8").hears(2)[1], "on (after 2)");
    let said = terminal.says("two");
    assert_eq!(terminal.delivered(said)["text"], "two (after 4)", "they share it");
    assert_eq!(notices(&terminal).len(), 1, "and it is said once");
    let listed = world.block_on(world.host().store.handoffs(true, 10)).unwrap();
    let listed: Vec<_> = listed.iter().map(|row| (&row.session, &row.state, row.chat.clone())).collect();
    assert_eq!(listed, [(&session, &HandoffState::Completed, Some(Chat::dm("8")))]);
    let shown = crate::engine::handoff::info(&world.block_on(world.host().store.handoff(&session)).unwrap().unwrap());
    assert!(shown.message.starts_with("the conversation continues in fake:8;"), "{}", shown.message);
}

#[test]
fn a_terminal_that_resumed_what_a_chat_is_in_hears_when_somebody_speaks_there() {
    let section = "access = { allowed_users = [\"7\"], operators = [\"7\"] }";
    let world = world(Setting { section: section.to_owned(), ..setting(false) });
    world.chat("7").says("one");
    world.chat("7").hears(2);
    world.settled();
    let mut terminal = Terminal::attach(&world, SeatFor::Conversation);
    let session = session_of(&mut terminal);
    let resumed = terminal.says(&format!("/resume {session}"));
    terminal.delivered(resumed);
    for (text, heard) in [("two", 3), ("three", 4)] {
        world.chat("7").says(text);
        world.chat("7").hears(heard);
    }
    let told = hears(&mut terminal, 1);
    assert!(told.starts_with("This conversation is also being used in fake:7; "), "{told}");
    let status = terminal.says("/status");
    terminal.delivered(status);
    assert_eq!(notices(&terminal).len(), 1);
}
