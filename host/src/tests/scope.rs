//! The owner of a turn: the data that its tools find and keep.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, EventSink, Message, TurnOutcome, TurnRequest};
use hermes_protocol::{Chat, ChatType};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};

/// A runtime that reports the owner of its turn.
struct Bound;

impl AgentRuntime for Bound {
    fn name(&self) -> &'static str {
        "bound"
    }

    fn models(&self) -> Vec<String> {
        vec!["bound".to_owned()]
    }

    fn run(&self, request: TurnRequest, _: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let text = match request.context.owner.as_str() {
                "" => format!("the conversation {}", request.context.session_key),
                owner => format!("the person {owner}"),
            };
            TurnOutcome::Finished {
                messages: vec![Message::assistant(text.clone())],
                text,
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: "bound".to_owned(),
                state: None,
            }
        })
    }
}

#[test]
fn what_a_person_keeps_for_themselves_is_told_in_no_group_even_where_each_has_a_conversation_of_their_own() {
    let section =
        "access = { allowed_users = [\"7\"], operators = [\"8\"] }\nsession = { require_mention = false }".to_owned();
    let world = World::with(Setting { section, runtime: Some(Arc::new(Bound)), ..Setting::default() });
    world.chat("7").says("who?");
    assert_eq!(world.chat("7").hears(1), ["the person fake:7"]);
    for kind in [ChatType::Group, ChatType::Channel] {
        let group = world.talk(Chat::new(kind.clone(), format!("{kind:?}")), "7");
        group.says("who?");
        let heard = group.hears(1).remove(0);
        assert!(heard.starts_with("the conversation ") && heard.ends_with(":7"), "{heard}");
    }
}
