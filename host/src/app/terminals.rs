//! Slots for terminals: the chat of a terminal and the session in it.

use futures_util::future::BoxFuture;
use hermes_core::ids::SessionId;
use hermes_core::session::{MAIN_PROFILE, SessionKey};
use hermes_protocol::Chat;

use super::App;
use super::control::{Refusal, refusal, stored};
use crate::engine::messages::{Control, HostEvent};
use crate::engine::operator::records::{find_own_session, message_info, session_info};
use crate::engine::operator::{ErrorKind, MessageInfo, SeatInfo};
use crate::surface::control::Seats;
use hermes_loader::terminal;
use hermes_loader::terminal::{INSTANCE, Seat, SeatFor};
use hermes_store::{Change, DeliveryFilter, DeliveryState, InUse, RouteRow, SessionRow};

/// Earlier messages that are shown when a session continues.
const LAST_MESSAGES: u32 = 4;

/// The longest part of an earlier message that is shown, in bytes.
const LAST_BYTES_MAX: usize = 2 << 10;

impl Seats for App {
    fn left(&self, chat: String) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !terminal::is_for_one_answer(&chat) {
                return;
            }
            let _one_by_one = self.sitting.lock().await;
            // Another terminal may use the slot by now.
            if self.terminals.is_taken(&chat) {
                return;
            }
            if let Err(refusal) = self.unbind(&chat).await {
                tracing::debug!(
                    chat,
                    ?refusal,
                    "a terminal slot for one answer stays bound to its session until the next use"
                );
            }
        })
    }

    fn sit(&self, resume: Option<String>, once: bool) -> BoxFuture<'_, Result<(Seat, SeatInfo), Refusal>> {
        Box::pin(async move {
            let _one_by_one = self.sitting.lock().await;
            let seat_for = if once { SeatFor::OneAnswer } else { SeatFor::Conversation };
            match resume {
                Some(name) => self.sit_again(seat_for, &name).await,
                None => self.sit_anew(seat_for).await,
            }
        })
    }
}

impl App {
    /// Takes a slot whose first message starts a session.
    async fn sit_anew(&self, seat_for: SeatFor) -> Result<(Seat, SeatInfo), Refusal> {
        let rather = match seat_for {
            SeatFor::Conversation => {
                let answering = stored(self.host.store.chats_with_turns(INSTANCE)).await?;
                in_order(self.owed_to().await?, &answering)
            }
            SeatFor::OneAnswer => Vec::new(),
        };
        let seat = self.take(seat_for, None, &rather)?;
        self.terminals.begins_anew(seat.chat());
        self.unbind(seat.chat()).await?;
        let info = self.info(&seat);
        Ok((seat, info))
    }

    /// Removes the route of a slot.
    async fn unbind(&self, chat: &str) -> Result<(), Refusal> {
        let key = self.key_of(chat)?;
        let unbind = |reply| Control::Unbind { key: key.clone(), reply };
        match self.ask(unbind).await? {
            true => self.write(vec![Change::UnbindRoute { key }]).await,
            false => Ok(()),
        }
    }

    /// Takes a slot in which a session continues.
    async fn sit_again(&self, seat_for: SeatFor, name: &str) -> Result<(Seat, SeatInfo), Refusal> {
        let row = find_own_session(&self.host.store, name).await.map_err(Box::new)?;
        let session = row.id.clone();
        let led = self.ask(|reply| Control::LedTo { session: session.clone(), reply }).await?;
        // A slot for one answer is not kept.
        let is_kept =
            |(instance, chat): &&(String, Chat)| instance == INSTANCE && !terminal::is_for_one_answer(&chat.id);
        let here = led.iter().find(is_kept).map(|(_, chat)| chat.id.clone());
        let in_use = stored(self.host.store.session_in_use(&session)).await?;
        match in_use {
            Some(InUse::Handoff) => {
                let words = format!("{} is being handed off; try again in a moment", called(&row));
                return Err(refusal(ErrorKind::Refused, words));
            }
            Some(InUse::Turn) if here.is_none() => {
                let words = format!("{} is answering a message in {}; {AFTER_THAT}", called(&row), places(&led));
                return Err(refusal(ErrorKind::Refused, words));
            }
            Some(InUse::Turn) | None => {}
        }
        let wanted = here.as_deref().filter(|_| seat_for == SeatFor::Conversation);
        let seat = self.take(seat_for, wanted, &[])?;
        self.lead(seat.chat(), &session).await?;
        let mut info = self.info(&seat);
        let messages = stored(self.host.store.history(&session, LAST_MESSAGES)).await?;
        info.last = messages.into_iter().map(message_info).map(shortened).collect();
        info.session = Some(session_info(row));
        let others = led.iter().filter(|(instance, _)| instance != INSTANCE);
        info.elsewhere = others.map(|(instance, chat)| place(instance, chat)).collect();
        Ok((seat, info))
    }

    fn take(&self, seat_for: SeatFor, wanted: Option<&str>, rather: &[String]) -> Result<Seat, Refusal> {
        if self.host.draining.is_cancelled() {
            return Err(refusal(ErrorKind::Busy, "the host is stopping; try again in a moment"));
        }
        if let Some(why) = self.host.takes_nothing() {
            return Err(refusal(ErrorKind::Refused, why));
        }
        self.terminals.sit(seat_for, wanted, rather).map_err(|words| refusal(ErrorKind::Refused, words))
    }

    /// Returns the slots with owed deliveries, oldest first.
    async fn owed_to(&self) -> Result<Vec<String>, Refusal> {
        let filter = DeliveryFilter {
            instance: Some(INSTANCE.to_owned()),
            state: Some(DeliveryState::Owed),
            ..DeliveryFilter::default()
        };
        let mut owed = stored(self.host.store.deliveries(filter)).await?;
        owed.sort_by_key(|delivery| delivery.id);
        Ok(owed.into_iter().map(|delivery| delivery.chat.id).collect())
    }

    /// Binds a slot to a session and reopens the session.
    async fn lead(&self, chat: &str, session: &SessionId) -> Result<(), Refusal> {
        let (key, chat) = (self.key_of(chat)?, terminal::chat(chat));
        let now_ms = self.host.now_ms();
        let route = RouteRow::new(key, MAIN_PROFILE, INSTANCE, session.clone(), chat, now_ms);
        let open = Change::ReopenSession { session: session.clone() };
        self.write(vec![open, Change::BindRoute(route.clone())]).await?;
        self.host.tell(HostEvent::control(Control::Bind { route: Box::new(route) })).await;
        Ok(())
    }

    fn key_of(&self, chat: &str) -> Result<String, Refusal> {
        let policy = self.host.live().key_policy(INSTANCE);
        SessionKey::for_chat(MAIN_PROFILE, INSTANCE, &terminal::chat(chat), &terminal::operator(), policy)
            .map(|key| key.stored())
            .map_err(|error| refusal(ErrorKind::Failed, error.to_string()))
    }

    fn info(&self, seat: &Seat) -> SeatInfo {
        let instances = self.adapters.all().iter().map(|adapter| adapter.instance().to_string()).collect();
        SeatInfo { chat: seat.chat().to_owned(), instances, alone: self.alone, ..SeatInfo::default() }
    }
}

/// Returns the preferred slots for a new conversation: first those with waiting deliveries, so that they are seen, then
/// the others. Slots in which the agent still answers a former conversation are left out, so they are taken last; that
/// answer would arrive within the new conversation.
fn in_order(owed: Vec<String>, answering: &[String]) -> Vec<String> {
    let all = (1..=terminal::SEATS_MAX).map(|number| number.to_string());
    owed.into_iter().chain(all).filter(|chat| !answering.contains(chat)).collect()
}

/// Returns a message for display, shortened if it is long.
fn shortened(mut message: MessageInfo) -> MessageInfo {
    if message.content.len() > LAST_BYTES_MAX {
        let end = (0..=LAST_BYTES_MAX).rev().find(|end| message.content.is_char_boundary(*end)).unwrap_or(0);
        message.content.truncate(end);
        message.content.push_str(" …");
    }
    message
}

const AFTER_THAT: &str = "try again when the turn ends, or stop it there";

/// Returns the name of a session for people.
fn called(row: &SessionRow) -> String {
    match &row.title {
        Some(title) => format!("{title:?}"),
        None => format!("session {}", row.id),
    }
}

/// Returns the name of a chat for people.
fn place(instance: &str, chat: &Chat) -> String {
    match &chat.name {
        Some(name) => format!("{instance} ({name})"),
        None => format!("{instance} ({})", chat.id),
    }
}

fn places(led: &[(String, Chat)]) -> String {
    match led {
        [] => "another chat".to_owned(),
        led => led.iter().map(|(instance, chat)| place(instance, chat)).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_conversation_sits_where_something_waits_and_not_where_a_former_one_is_answered() {
        let seats = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(in_order(seats(&["4", "2"]), &seats(&["1", "2"]))[..3], seats(&["4", "3", "4"]));
        assert_eq!(in_order(Vec::new(), &[])[0], "1");
    }
}
