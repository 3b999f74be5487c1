//! A handoff meets what else happens to its conversation: ends that come late, a summary that is being written, and
//! people at the terminal that it leaves.

use hermes_core::handoff::HandoffState;
use hermes_core::ids::SessionId;
use hermes_core::session::SessionKey;
use hermes_protocol::Chat;
use serde_json::json;

use super::handoff::{asks, begun, ends, moves, setting, world};
use super::terminal::Terminal;
use super::world::World;
use crate::events::{Control, HostEvent};
use crate::plugins::terminal::SeatFor;
use crate::store::{HandoffClaim, HandoffRoutes};

/// The session that goes on in the terminal.
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
        words, "Not compressed: the conversation is just being handed over. The conversation is as it was.",
        "and the summary, which would never end, is waited for no more"
    );
    assert_eq!(ends(&world, &session).state, HandoffState::Completed);
    assert_eq!(world.chat("7").hears(2)[1], "I am here (after 4)");
}
