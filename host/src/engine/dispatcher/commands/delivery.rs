//! Commands about the destinations of the host's messages.

use std::sync::Arc;

use hermes_protocol::{ChatType, RenameThreadCall, method};

use super::{Asked, Deed};
use crate::engine::dispatcher::Dispatcher;
use crate::engine::session::{Act, Later};
use hermes_core::text::sentence;
use hermes_store::Change;

/// The longest name of a topic, in characters; the adapter knows the platform's own limit.
const TOPIC_CHARS_MAX: usize = 128;

impl Dispatcher {
    /// `/sethome [off]`: makes this chat the home channel.
    pub(super) fn sethome(&mut self, asked: &Asked<'_>) -> Deed {
        let (words, changes) = self.set_home(asked.arrived, asked.args);
        Deed { act: Act::Say(words), changes }
    }

    /// `/topic [name]`: shows or changes the name of this topic.
    pub(super) fn topic(&mut self, asked: &Asked<'_>) -> Deed {
        let chat = asked.arrived.event.get().chat.clone();
        let Some(adapter) = asked.arrived.adapter.clone() else {
            return Deed::say("This platform is no longer configured.");
        };
        let label = adapter.manifest().label.clone();
        if chat.thread.is_none() && chat.kind != ChatType::Thread {
            return Deed::say(match adapter.capabilities().threads {
                true => {
                    "This chat is not a topic. Open one and send /topic there; each topic is a separate conversation."
                        .to_owned()
                }
                false => format!("{label} has no topics."),
            });
        }
        let name: String = asked.args.chars().filter(|c| !c.is_control()).take(TOPIC_CHARS_MAX).collect();
        let name = name.trim().to_owned();
        if name.is_empty() {
            let id = chat.thread.as_deref().unwrap_or(&chat.id);
            let known = chat.thread_name.as_deref().filter(|name| !name.is_empty());
            let called = known.map_or_else(|| format!("Topic `{id}`"), |name| format!("Topic: {name} (`{id}`)"));
            return Deed::say(format!("{called}. `/topic NAME` renames it."));
        }
        if !adapter.capabilities().rename_thread {
            return Deed::say(format!("I cannot rename topics on {label}; please rename it in {label} itself."));
        }
        let instance = Arc::clone(adapter.instance());
        let seen_ms = self.host.now_ms();
        let renaming = async move {
            let call = RenameThreadCall::new(chat.clone(), name.clone());
            let payload = serde_json::to_vec(&call).expect("a name is always JSON");
            match adapter.hint(method::RENAME_THREAD, payload).await {
                Ok(_) => {
                    let mut chat = chat;
                    chat.thread_name = Some(name.clone());
                    let saw = Change::SawChat { instance: instance.to_string(), chat, seen_ms };
                    (format!("This topic is now called \"{name}\"."), vec![saw])
                }
                Err(error) => (sentence(format!("{label} did not rename this topic: {error}")), Vec::new()),
            }
        };
        Act::Later(Later::new(renaming)).into()
    }
}
