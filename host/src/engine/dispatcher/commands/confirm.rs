//! Commands that ask for confirmation.

use std::sync::Arc;

use hermes_core::access::Tier;
use hermes_core::approvals::{Answer, Question, QuestionKind};
use hermes_core::limits::COMMAND_ASKS_MAX;

use super::{Asked, Deed};
use crate::engine::approvals;
use crate::engine::approvals::Over;
use crate::engine::dispatcher::{Arrived, Dispatcher, place};
use crate::engine::session::{Act, Order};
use hermes_system::rng;

impl Dispatcher {
    /// Asks before a command is carried out.
    pub(super) fn confirm(&mut self, asked: &Asked<'_>, words: &str) -> Deed {
        let Asked { arrived, found, args } = asked;
        let event = arrived.event.get();
        if let Some(earlier) = self.asks.close_command(&found.session) {
            self.close_aside(Over::of(&earlier, approvals::NO_LONGER_OPEN.to_owned(), false), None);
        }
        if self.asks.commands() >= COMMAND_ASKS_MAX {
            return Deed::say("Too many questions are open at the moment. Please try again in a few minutes.");
        }
        let wait = self.host.live().session_of(&arrived.instance).approval_timeout;
        let question = Question {
            id: format!("{:016x}", rng::number(&*self.host.chance)),
            session: found.session.clone(),
            instance: arrived.instance.to_string(),
            chat: event.chat.clone(),
            origin: event.chat.clone(),
            requester: event.sender.clone(),
            addressee: None,
            needs: Tier::User,
            kind: QuestionKind::Approval,
            about: approvals::about(&self.host, &event.text),
            options: approvals::confirm_options(),
            expires_at_ms: self.host.now_ms().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
            key: None,
            command: Some((*args).to_owned()),
        };
        self.asks.open(question.clone());
        Act::Ask { question: Box::new(question), words: words.to_owned() }.into()
    }

    /// Carries out or drops a command after its button was pressed.
    pub(super) fn command_answered(&mut self, arrived: Arrived, question: Question, answer: &Answer) {
        let Some((arrived, found)) = self.resolve(arrived) else { return };
        let after = self.ending_before(&found);
        let asked = Asked { arrived: &arrived, found: &found, args: "" };
        let Deed { act, changes } = self.confirmed(&asked, &question, answer);
        let (instance, adapter) = (Arc::clone(&arrived.instance), arrived.adapter.clone());
        let place = place(instance, adapter, arrived.event.get(), found.session.clone(), arrived.id);
        let order = Box::new(Order { place, act, changes, bypasses: true });
        self.obeyed(arrived, found, after, order);
    }

    /// Carries out a confirmed command in the conversation in which it was given.
    pub(super) fn confirmed(&mut self, asked: &Asked<'_>, question: &Question, answer: &Answer) -> Deed {
        let is_same = asked.found.session == question.session;
        let deed = match answer.approves() && is_same {
            true => self.new_session_now(&Asked { args: question.command.as_deref().unwrap_or_default(), ..*asked }),
            false if is_same => Deed::say("Nothing was changed; this conversation continues."),
            false => Deed::say("This chat has switched to another conversation; nothing was changed."),
        };
        let outcome = if answer.approves() && is_same { "Yes." } else { "No." };
        self.close_aside(Over::of(question, outcome.to_owned(), false), None);
        deed
    }

    /// Closes the questions of commands whose time has passed.
    pub(crate) fn expire_asks(&mut self) {
        for question in self.asks.expire_commands(self.host.now_ms()) {
            let outcome = "Nobody answered in time, so nothing was changed.".to_owned();
            self.close_aside(Over::of(&question, outcome, true), None);
        }
    }
}
