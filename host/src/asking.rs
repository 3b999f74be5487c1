//! Questions as people see them: what is asked and how it can be answered, and what
//! stands there once it is over.
//!
//! A question is a delivery like any other. Where the platform has buttons it carries
//! them and they are taken away when it is over; elsewhere the options are numbered in
//! words, and what became of them is said. Who may answer is
//! [`hermes_core::asks`]; who waits is the session's lane or a command.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::asks::{Answer, DENY, Kind, Question, Verdict};
use hermes_core::delivery::{PartState, strip_control};
use hermes_core::ids::{DeliveryId, InboxId, SessionId};
use hermes_core::limits::{ASK_LABEL_CHARS_MAX, ASK_TEXT_CHARS_MAX, DENIAL_CHARS_MAX};
use hermes_core::session::is_dm;
use hermes_protocol::{Chat, ChoiceOption, Choices, Purpose};

use crate::context::compose;
use crate::events::{Control, HostEvent};
use crate::host::Host;
use crate::outbox::Target;
use crate::store::{Change, CommandTx, NewDelivery, OwedDelivery, StoreError};

/// What stands at a question whose turn, or whose host, is gone.
pub const NO_LONGER_OPEN: &str = "This question is no longer open.";

/// What follows a text that was too long.
const CUT: &str = "…";

/// Words of an agent or of its user, as a question shows them: no control sequences, no secrets, bounded.
pub fn shown(host: &Host, text: &str, chars_max: usize) -> String {
    cut(&clean(host, text), chars_max)
}

fn clean(host: &Host, text: &str) -> String {
    host.live().masker.mask(strip_control(text.trim())).into_owned()
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}{CUT}", &text[..end]),
        None => text.to_owned(),
    }
}

/// An action, word for word, in a fence that nothing in it can close. Outside of it stands how much is not shown:
/// nobody approves what they do not know of.
pub fn fenced(host: &Host, action: &str) -> String {
    let whole = clean(host, action);
    let action = cut(&whole, ASK_TEXT_CHARS_MAX);
    let longest = action.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let fenced = format!("{fence}\n{action}\n{fence}");
    match whole.chars().count().saturating_sub(ASK_TEXT_CHARS_MAX) {
        0 => fenced,
        1 => format!("{fenced}\n\n**1 further character is not shown.**"),
        hidden => format!("{fenced}\n\n**{hidden} further characters are not shown.**"),
    }
}

/// The buttons of an approval; for always only where an admin may press them.
pub fn approval_options(is_remembered: bool, for_always: bool) -> Vec<ChoiceOption> {
    let mut options = vec![option(Verdict::Once.as_str(), "Approve once", "primary")];
    if is_remembered {
        options.push(option(Verdict::Session.as_str(), "Approve for this conversation", ""));
    }
    if is_remembered && for_always {
        options.push(option(Verdict::Always.as_str(), "Approve always", ""));
    }
    options.push(option(DENY, "Deny", "danger"));
    options
}

/// The buttons of a command that asks first.
pub fn confirm_options() -> Vec<ChoiceOption> {
    vec![option(Verdict::Once.as_str(), "Yes", "primary"), option(DENY, "No", "")]
}

/// The buttons of a choice, numbered from 1.
pub fn choice_options(host: &Host, labels: &[String]) -> Vec<ChoiceOption> {
    let labels = labels.iter().map(|label| shown(host, label, ASK_LABEL_CHARS_MAX).replace('\n', " "));
    (1..).zip(labels).map(|(number, label)| option(&number.to_string(), &label, "")).collect()
}

/// A button.
pub fn option(id: &str, label: &str, style: &str) -> ChoiceOption {
    let mut option = ChoiceOption::new(id, label);
    style.clone_into(&mut option.style);
    option
}

/// The delivery that asks a question: `body`, and how it can be answered.
pub async fn pose(host: &Host, question: &Question, body: &str) -> NewDelivery {
    let has_buttons = host.adapter(&question.instance).is_some_and(|adapter| adapter.capabilities().buttons);
    let text = format!("{body}\n\n{}", how(question, has_buttons, host.now_ms()));
    let mut delivery = compose(host, &question.instance, question.chat.clone(), Purpose::Ask, text).await;
    if has_buttons {
        delivery.choices = Some(Choices::new(&*question.id, question.options.clone(), question.expires_at_ms));
        // What stands there when it is over needs no word about how to answer it.
        body.clone_into(&mut delivery.markdown);
    }
    delivery.session = Some(question.session.clone());
    delivery.deadline_ms = delivery.deadline_ms.min(question.expires_at_ms);
    delivery
}

fn how(question: &Question, has_buttons: bool, now_ms: i64) -> String {
    let mut words = String::new();
    if !has_buttons && question.addressee.is_some() {
        words.push_str("Answer with `/approve`");
        for option in question.options.iter().filter(|option| option.id != DENY && option.id != Verdict::Once.as_str())
        {
            let _ = write!(words, ", `/approve {}`", option.id);
        }
        words.push_str(" or `/deny`. ");
    } else if !has_buttons {
        for (number, option) in question.options.iter().enumerate() {
            // Writing into a `String` cannot fail.
            let _ = writeln!(words, "{}. {}", number + 1, option.label);
        }
        words.push('\n');
        words.push_str(match question.kind {
            Kind::Approval => "Answer with the number, with `/approve` or with `/deny`. ",
            Kind::Choice { free: true } => "Answer with the number, or in your own words. ",
            Kind::Choice { free: false } => "Answer with the number. ",
        });
    }
    let time = in_words(Duration::from_millis(u64::try_from(question.expires_at_ms - now_ms).unwrap_or_default()));
    let otherwise = match question.kind {
        Kind::Approval => "it is not done",
        Kind::Choice { .. } => "it goes on without one",
    };
    let _ = write!(words, "Without an answer within {time} {otherwise}.");
    words
}

fn in_words(time: Duration) -> String {
    let (number, unit) = match time.as_millis().div_ceil(1_000) {
        seconds if seconds < 120 => (seconds, "second"),
        seconds if seconds < 7_200 => (seconds.div_ceil(60), "minute"),
        seconds => (seconds.div_ceil(3_600), "hour"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// What became of a question, in words.
pub fn outcome(question: &Question, answer: &Answer) -> String {
    match answer {
        Answer::Approved(Verdict::Once) => "Approved, this once.".to_owned(),
        Answer::Approved(Verdict::Session) => "Approved for this conversation.".to_owned(),
        Answer::Approved(Verdict::Always) => "Approved for always.".to_owned(),
        Answer::Denied { why: None } => "Denied.".to_owned(),
        Answer::Denied { why: Some(why) } => format!("Denied: {}", cut(why, DENIAL_CHARS_MAX)),
        Answer::Chosen(number) => {
            format!("Chosen: {}", question.options.get(*number).map(|option| option.label.as_str()).unwrap_or_default())
        }
        Answer::Said(words) => format!("Answered: {}", cut(words, DENIAL_CHARS_MAX)),
        Answer::Unanswered if question.kind == Kind::Approval => {
            "Nobody answered in time, so it is not done.".to_owned()
        }
        Answer::Unanswered => "Nobody answered in time.".to_owned(),
        Answer::Gone => NO_LONGER_OPEN.to_owned(),
    }
}

/// A question that is over.
#[derive(Debug)]
pub struct Over {
    /// Its id.
    pub id: String,
    /// Through which instance it was asked.
    pub instance: String,
    /// Where it stands.
    pub chat: Chat,
    /// The session it is of.
    pub session: Option<SessionId>,
    /// What became of it.
    pub outcome: String,
    /// Whether the outcome is said where nothing can be changed to say it.
    pub says: bool,
    /// The event that answered it, which is answered with this.
    pub inbox: Option<InboxId>,
    /// What changes with it.
    pub changes: Vec<Change>,
}

impl Over {
    /// A question of which nothing but its end is to be told.
    pub fn of(question: &Question, outcome: String, says: bool) -> Self {
        Self {
            id: question.id.clone(),
            instance: question.instance.clone(),
            chat: question.chat.clone(),
            session: Some(question.session.clone()),
            outcome,
            says,
            inbox: None,
            changes: Vec::new(),
        }
    }
}

/// Takes the buttons of a question away and lets it say what became of it; elsewhere that is said. One transaction
/// with what changes.
pub async fn close(host: &Arc<Host>, over: Over) {
    let posed = match host.store.open_ask(&over.id).await {
        Ok(posed) => posed,
        Err(error) => {
            tracing::error!(ask = over.id, %error, "a question cannot be read; it may keep its buttons");
            None
        }
    };
    if let Some(posed) = &posed {
        withdraw(host, posed).await;
    }
    let message = posed.as_ref().and_then(message_of);
    let text = match &posed {
        Some(posed) => format!("{}\n\n{}", posed.markdown, over.outcome),
        None => over.outcome.clone(),
    };
    let mut reply = Vec::new();
    if message.is_some() || over.says {
        let text = if message.is_some() { text } else { over.outcome };
        let mut delivery = compose(host, &over.instance, over.chat, Purpose::Notice, text).await;
        delivery.edits = message;
        delivery.session = over.session;
        reply.push(delivery);
    }
    let mut changes = over.changes;
    changes.extend(posed.map(|posed| Change::AskOver { delivery: posed.id }));
    let order = CommandTx { inbox: over.inbox, changes, reply, now_ms: host.now_ms() };
    if order.inbox.is_none() && order.changes.is_empty() && order.reply.is_empty() {
        return;
    }
    if let Some(ids) = host.until_written("the end of a question", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}

/// The press of a button whose question is not open.
#[derive(Debug)]
pub struct Stale {
    /// The question that the event names.
    pub ask: String,
    /// Through which instance.
    pub instance: Arc<str>,
    /// In which chat.
    pub chat: Chat,
    /// The message that the event names.
    pub message: Option<String>,
    /// Who pressed, by their id.
    pub by: String,
    /// Whether they are told where no button can be taken away.
    pub tells: bool,
    /// The event.
    pub inbox: InboxId,
}

/// Takes the buttons of a question away that is not open. Which message that is, the event only claims: one that was
/// not sent with this question stays as it is.
pub async fn stale(host: &Arc<Host>, press: Stale) {
    let posed = host.store.asked(&press.ask).await.unwrap_or_else(|error| {
        tracing::error!(ask = press.ask, %error, "a question cannot be read; it may keep its buttons");
        None
    });
    let posed = posed.filter(|posed| carries(posed, &press));
    let mut reply = Vec::new();
    if posed.is_some() || press.tells {
        let is_private = is_dm(&press.chat.kind) || press.by.is_empty();
        let text = match &posed {
            Some(posed) => format!("{}\n\n{NO_LONGER_OPEN}", posed.markdown),
            None => NO_LONGER_OPEN.to_owned(),
        };
        let mut delivery = compose(host, &press.instance, press.chat, Purpose::Notice, text).await;
        delivery.in_reply_to = Some(press.inbox);
        match posed {
            Some(posed) => (delivery.edits, delivery.session) = (press.message, posed.session),
            None => delivery.ephemeral_to = (!is_private).then_some(press.by),
        }
        reply.push(delivery);
    }
    let order = CommandTx { inbox: Some(press.inbox), changes: Vec::new(), reply, now_ms: host.now_ms() };
    if let Some(ids) = host.until_written("a press that came too late", || host.store.command(order.clone())).await {
        host.carry(ids, order.reply).await;
    }
}

/// Whether the message that was pressed is one of a question's.
fn carries(posed: &OwedDelivery, press: &Stale) -> bool {
    let is_there = |id: &String| {
        posed.parts.iter().any(|part| match &part.state {
            PartState::Delivered { receipt } => receipt.message_ids.contains(id),
            _ => false,
        })
    };
    *posed.instance == *press.instance && posed.chat == press.chat && press.message.as_ref().is_some_and(is_there)
}

/// Ends what an earlier life of the host asked: nobody waits for it any more.
///
/// # Errors
///
/// When the store cannot be read; the host must not start then.
pub async fn close_all(host: &Arc<Host>) -> Result<(), StoreError> {
    let mut after = DeliveryId(0);
    loop {
        let batch = host.store.open_asks(after).await?;
        let Some(last) = batch.last() else { return Ok(()) };
        after = last.id;
        for posed in batch {
            // How it is written there is known once its adapter is.
            let shown = message_of(&posed).and_then(|_| host.adapter(&posed.instance));
            match shown {
                None => close(host, left_open(posed)).await,
                Some(adapter) => {
                    let host = Arc::clone(host);
                    tokio::spawn(async move {
                        if host.parking.run_until_cancelled(adapter.online()).await.is_some() {
                            close(&host, left_open(posed)).await;
                        }
                    });
                }
            }
        }
    }
}

fn left_open(posed: OwedDelivery) -> Over {
    Over {
        id: posed.choices.map(|choices| choices.ask).unwrap_or_default(),
        instance: posed.instance,
        chat: posed.chat,
        session: posed.session,
        outcome: format!("{NO_LONGER_OPEN} The host was started again meanwhile."),
        says: false,
        inbox: None,
        changes: Vec::new(),
    }
}

/// The platform's message that carries the buttons, where it is known to be there.
fn message_of(posed: &OwedDelivery) -> Option<String> {
    match &posed.parts.last()?.state {
        PartState::Delivered { receipt } => receipt.message_ids.last().cloned(),
        _ => None,
    }
}

/// What nobody has seen yet need not be seen any more.
async fn withdraw(host: &Arc<Host>, posed: &OwedDelivery) {
    // What is being sent arrives or not; whoever presses its buttons hears that it is over.
    let is_in_flight = posed.parts.iter().any(|part| matches!(part.state, PartState::InFlight { .. }));
    if !posed.state.is_live() || is_in_flight {
        return;
    }
    match host.store.outbox_drop(posed.id, "its question is over").await {
        Ok(()) => {
            let target = Target::of(&posed.instance, &posed.chat);
            host.tell(HostEvent::control(Control::Refresh { target, owed: None, id: posed.id })).await;
        }
        // It was settled meanwhile.
        Err(StoreError::Conflict { .. }) => {}
        Err(error) => tracing::warn!(delivery = %posed.id, %error, "a question that is over may still be asked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_tell_them() {
        let words = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(
            (words(1), words(60), words(300), words(7_200)),
            ("1 second".to_owned(), "60 seconds".to_owned(), "5 minutes".to_owned(), "2 hours".to_owned())
        );
    }
}
