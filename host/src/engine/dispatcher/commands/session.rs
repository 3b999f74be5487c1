//! Commands about the conversation itself: its identity, its beginning and end, undo, and its move to another chat.

use hermes_core::access::Tier;
use hermes_core::pairing::Claimant;
use hermes_core::session::{is_dm, participant};

use super::{Asked, Deed};
use crate::engine::dispatcher::{Dispatcher, heard_again, owner};
use crate::engine::handoff::on_its_way;
use crate::engine::session::{Act, UNDO_TURNS_MAX, Wish, WishKind};
use hermes_loader::terminal;
use hermes_store::{Change, ObservedUpTo};

impl Dispatcher {
    /// `/new [title]`: starts another conversation, after a confirmation if the operator requires one.
    pub(super) fn new_session(&mut self, asked: &Asked<'_>) -> Deed {
        if let Some(lease) = self.host.handoffs.lease(&asked.found.session) {
            return Deed::say(on_its_way(&lease.instance));
        }
        let asks = self.host.live().session_of(&asked.arrived.instance).confirm_new;
        match asks && asked.found.is_written() {
            true => {
                self.confirm(asked, "Start a new conversation? This one ends, but it is kept; `/resume` reopens it.")
            }
            false => self.new_session_now(asked),
        }
    }

    /// Binds the key of this conversation to a new one.
    pub(super) fn new_session_now(&mut self, asked: &Asked<'_>) -> Deed {
        let Asked { arrived, found, args } = asked;
        let (free, then) = self.free_key(found.key.stored());
        // A conversation with other chats continues there.
        let stays = self.is_led_to(&found.session);
        let mut changes = vec![free];
        if !stays {
            changes.insert(0, Change::EndSession { session: found.session.clone(), reason: "new".to_owned() });
        }
        let (instance, chat) = (&arrived.instance, &arrived.event.get().chat);
        if !is_dm(&chat.kind) && self.host.live().session_of(instance).observe {
            changes.push(Change::ForgetObserved(ObservedUpTo {
                instance: instance.to_string(),
                chat: chat.clone(),
                inbox: arrived.id,
                now_ms: self.host.now_ms(),
            }));
        }
        if !args.is_empty() {
            // A title needs its session at once; without one, the next message creates it.
            changes.extend(self.begin_titled(arrived, found.key.stored(), args));
        }
        Deed { act: if stays { Act::Leave { then } } else { Act::End { then } }, changes }
    }

    /// `/retry`: runs the last message again.
    pub(super) fn retry(&mut self, asked: &Asked<'_>) -> Deed {
        wish(asked, WishKind::Retry(Box::new(heard_again(asked.arrived, asked.found))))
    }

    /// `/undo [number | redo]`: takes back the last turns, or restores them.
    pub(super) fn undo(&mut self, asked: &Asked<'_>) -> Deed {
        match (asked.args, asked.args.parse()) {
            ("", _) => wish(asked, WishKind::Undo(1)),
            ("redo", _) => wish(asked, WishKind::Redo),
            (_, Ok(turns @ 1..=UNDO_TURNS_MAX)) => wish(asked, WishKind::Undo(turns)),
            _ => Deed::say(format!(
                "Use `/undo`, `/undo NUMBER` up to {UNDO_TURNS_MAX}, or `/undo redo` to restore what was removed."
            )),
        }
    }

    /// `/title [text]`: shows or sets the title of this conversation.
    pub(super) fn title(&mut self, asked: &Asked<'_>) -> Deed {
        wish(asked, WishKind::Title(some(asked.args)))
    }

    /// `/branch [title]`: starts a branch of this conversation.
    pub(super) fn branch(&mut self, asked: &Asked<'_>) -> Deed {
        wish(asked, WishKind::Branch(some(asked.args)))
    }

    /// `/compress [what matters]`: replaces the history by a summary.
    pub(super) fn compress(&mut self, asked: &Asked<'_>) -> Deed {
        wish(asked, WishKind::Compress(asked.args.to_owned()))
    }

    /// `/sessions [page]`: lists the conversations that can be resumed.
    pub(super) fn sessions(&mut self, asked: &Asked<'_>) -> Deed {
        match (asked.args, asked.args.parse()) {
            ("", _) => wish(asked, WishKind::List(1)),
            (_, Ok(page @ 1..)) => wish(asked, WishKind::List(page)),
            _ => Deed::say("Use `/sessions` or `/sessions PAGE`."),
        }
    }

    /// `/resume <number | title | id>`: resumes another conversation.
    pub(super) fn resume_session(&mut self, asked: &Asked<'_>) -> Deed {
        match some(asked.args) {
            Some(name) => wish(asked, WishKind::Resume(name)),
            None => Deed::say("Use `/resume` with a number, a title or an id. `/sessions` lists your conversations."),
        }
    }

    /// `/return`: moves the conversation back to the terminal.
    pub(super) fn hand_back(&mut self, asked: &Asked<'_>) -> Deed {
        if *asked.arrived.instance == *terminal::INSTANCE {
            return Deed::say("You are already in the terminal; this conversation stays here.");
        }
        wish(asked, WishKind::Return)
    }

    /// `/claim CODE`: takes over a conversation that the terminal offered.
    pub(super) fn claim(&mut self, asked: &Asked<'_>) -> Deed {
        if asked.args.is_empty() {
            return Deed::say("Send the code that the terminal shows: `/claim CODE`.");
        }
        let event = &asked.arrived.event;
        let by = Claimant {
            instance: &asked.arrived.instance,
            user: participant(&event.get().sender).unwrap_or_default(),
            is_operator: event.tier() == Tier::Operator,
        };
        match self.claims(by, asked.args) {
            Ok(session) => wish(asked, WishKind::Claim(session)),
            Err((words, changes)) => Deed { changes, ..Deed::say(words) },
        }
    }

    /// `/usage`: shows the usage.
    pub(super) fn usage(&mut self, asked: &Asked<'_>) -> Deed {
        wish(asked, WishKind::Usage)
    }
}

/// Creates a deed for the lane of this conversation.
fn wish(asked: &Asked<'_>, kind: WishKind) -> Deed {
    let Asked { arrived, found, .. } = asked;
    let wish = Wish {
        owner: owner(&arrived.instance, &arrived.event),
        key: found.key.stored(),
        is_staff: arrived.event.tier() >= Tier::Admin,
        several: found.key.is_shared_by_several(),
        kind,
    };
    Act::Conversation(Box::new(wish)).into()
}

fn some(args: &str) -> Option<String> {
    (!args.is_empty()).then(|| args.to_owned())
}
