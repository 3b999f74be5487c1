//! Commands about the running turn of a conversation, and about waiting messages.

use hermes_core::commands::{self, CommandId, Gates, Parsed};
use hermes_core::ids::SessionId;
use hermes_core::settings::{BusyMode, Setting, SettingChange};
use hermes_protocol::Event;

use super::settings::RESET;
use super::{Asked, Deed};
use crate::engine::context::Urge;
use crate::engine::dispatcher::{Arrived, Dispatcher, Found, owner};
use crate::engine::session::{Act, Birth};
use hermes_store::{Lineage, NewSession, Parent};

/// A message for the agent with a busy mode: the third kind of event, beside plain text and commands.
pub(crate) struct ToAgent {
    /// The text, without the command.
    pub(crate) words: String,
    /// The busy mode that the sender requests.
    pub(crate) urge: Urge,
    /// True if the turn runs in the background.
    pub(crate) aside: bool,
}

/// A turn in the background.
pub(crate) struct Aside {
    owner: Option<String>,
    /// The stored key of the conversation in which it was requested.
    pub(crate) key: String,
}

impl ToAgent {
    /// Reads `/queue`, `/steer` and `/background` with text after them.
    pub(crate) fn read(id: CommandId, words: &str) -> Option<Self> {
        let (urge, aside) = match id {
            _ if words.is_empty() => return None,
            CommandId::Queue => (Urge::As(BusyMode::Queue), false),
            CommandId::Steer => (Urge::As(BusyMode::Steer), false),
            CommandId::Background => (Urge::AsChosen, true),
            _ => return None,
        };
        Some(Self { words: words.to_owned(), urge, aside })
    }

    /// Reads the text of an event as on its arrival: a command that was disabled since was enabled then.
    pub(crate) fn again(event: &Event, prefix: &str) -> Option<Self> {
        match commands::parse(&event.text, prefix, &Gates::default()) {
            Parsed::Command { spec, args } if event.forwarded.is_none() => Self::read(spec.id, &args),
            _ => None,
        }
    }
}

impl Dispatcher {
    /// `/busy [mode]`: sets the effect of a message that arrives during a turn.
    pub(super) fn busy(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args {
            "" => Act::Show(Setting::Busy).into(),
            word if RESET.contains(&word) => Act::Set(SettingChange::Busy(None)).into(),
            word => match BusyMode::from_word(word) {
                Some(mode) => Act::Set(SettingChange::Busy(Some(mode))).into(),
                None => Deed::say("Use `/busy`, or `/busy` with `interrupt`, `queue`, `steer` or `reset`."),
            },
        }
    }

    /// `/queue`, `/steer` and `/background` without text after them.
    pub(super) fn without_words(&mut self, id: CommandId) -> Deed {
        let name = commands::Command::of(id).name;
        Deed::say(format!("Usage: `/{name} TEXT`."))
    }

    /// Returns the reason for which no further background turn can begin in this conversation.
    pub(super) fn forbids_aside(&self, arrived: &Arrived) -> Option<String> {
        let adapter = arrived.adapter.as_ref();
        if adapter.is_some_and(|adapter| !adapter.delivers_later(&arrived.event.get().chat.id)) {
            return Some(
                "Background turns are not available here: this chat cannot receive messages later.".to_owned(),
            );
        }
        let max = self.host.live().config.limits.background_max;
        let owner = owner(&arrived.instance, &arrived.event);
        let running = self.asides.values().filter(|aside| aside.owner == owner).count();
        (running >= max).then(|| match running {
            1 => "Not started: you already have 1 background turn running, which is the limit. `/agents` shows it."
                .to_owned(),
            n => format!(
                "Not started: you already have {n} background turns running, which is the limit. `/agents` lists them."
            ),
        })
    }

    /// Begins a background turn in a session of its own. Returns that session.
    pub(crate) fn begin_aside(&mut self, arrived: &Arrived, found: &Found) -> Birth {
        let session = self.host.new_session_id();
        let owner = owner(&arrived.instance, &arrived.event);
        self.note_aside(session.clone(), owner.clone(), found.key.stored());
        let session = NewSession {
            id: session,
            profile: hermes_core::session::MAIN_PROFILE.to_owned(),
            source: arrived.instance.to_string(),
            owner,
            settings: Default::default(),
            // The parent is set even for an empty conversation, because events that wake this session belong to it.
            parent: Some(Parent { session: found.session.clone(), lineage: Lineage::Aside }),
            title: None,
            started_ms: self.host.now_ms(),
        };
        Birth { session, route: None, takeover: None }
    }

    /// Counts a background turn until it is over.
    pub(crate) fn note_aside(&mut self, session: SessionId, owner: Option<String>, key: String) {
        self.asides.insert(session, Aside { owner, key });
    }
}
