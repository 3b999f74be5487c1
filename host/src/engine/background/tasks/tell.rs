//! Notices about tasks. The adapter of the subscription delivers each event once, to the chat and thread of the
//! subscription.
//!
//! One transaction owes the notice and advances the subscriber's position. Events within a moment share a notice.
//! Notices that a crash prevented follow at the next start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::ids::SessionId;
use hermes_protocol::Purpose;

use super::act::By;
use super::words;
use crate::engine::background::wakeups;
use crate::engine::background::wakeups::Wake;
use crate::engine::context::compose;
use crate::engine::runtime::Host;
use hermes_store::{NewWake, Seat, StoreError, TaskKind, TaskRow, Telling, Untold};

/// The wait for further events, so that a burst becomes one notice.
const TOGETHER_WITHIN: Duration = Duration::from_millis(400);

/// The prefix of the ids of wake-ups.
const WAKE: &str = "task:";

/// Rounds after one signal; the next signal continues.
const ROUNDS_MAX: usize = 50;

/// Sends notices as long as the host runs.
pub async fn tell_for_ever(host: Arc<Host>) {
    // Events of an earlier run without a notice.
    host.tasks.ring();
    loop {
        host.tasks.rang().await;
        if host.parking.run_until_cancelled(tokio::time::sleep(TOGETHER_WITHIN)).await.is_none() {
            return;
        }
        if let Err(error) = tell_all(&host).await {
            tracing::warn!(%error, "task events could not be reported; retrying within a minute");
        }
    }
}

/// Ends the claims on tasks whose time is up, and signals events whose notices failed before.
pub async fn minute(host: Arc<Host>) {
    match host.store.tasks_time_out(host.now_ms()).await {
        Ok(late) => {
            for task in &late {
                super::stop(&host, task).await;
            }
        }
        Err(error) => tracing::warn!(%error, "expired tasks could not be released; retrying"),
    }
    host.tasks.ring();
}

/// Notifies the chat of a `/background` turn that was taken from the host. Such a turn has no subscribers because its
/// chat receives its answer. The chat is not notified if the change was made there.
pub(super) async fn taken(host: &Arc<Host>, task: &TaskRow, by: &By) {
    let work = task.worker.as_ref().and_then(|session| host.working.in_session(session));
    let Some(work) = work.filter(|_| task.kind == TaskKind::Background && by.key.as_ref() != Some(&task.key)) else {
        return;
    };
    let text = host.live().masker.mask(words::taken(task)).into_owned();
    let delivery = compose(host, &work.instance, work.chat, Purpose::Reply, text).await;
    let owed =
        host.until_written("the notice of a turn taken from the host", || host.store.owe(delivery.clone())).await;
    if let Some(id) = owed {
        host.carry(vec![id], vec![delivery]).await;
    }
}

async fn tell_all(host: &Arc<Host>) -> Result<(), StoreError> {
    for _ in 0..ROUNDS_MAX {
        let untold = host.store.tasks_untold().await?;
        if untold.is_empty() {
            return Ok(());
        }
        for mut together in by_chat(untold) {
            level(&mut together);
            let shut_out = |news: &Untold| {
                let Seat { instance, chat, sender } = &news.seat;
                wakeups::is_shut_out(host, instance, chat, sender)
            };
            let (none, some): (Vec<_>, Vec<_>) = together.into_iter().partition(shut_out);
            tell_nothing(host, &none).await?;
            tell(host, &some).await?;
        }
    }
    host.tasks.ring();
    Ok(())
}

/// Groups subscribers by chat, across sessions.
fn by_chat(untold: Vec<Untold>) -> Vec<Vec<Untold>> {
    let mut groups: BTreeMap<(String, String, String), Vec<Untold>> = BTreeMap::new();
    for news in untold {
        let chat = &news.seat.chat;
        let place = (news.seat.instance.clone(), chat.id.clone(), chat.thread.clone().unwrap_or_default());
        groups.entry(place).or_default().push(news);
    }
    groups.into_values().collect()
}

/// Cuts the events of each task to the position that all its subscribers in the chat share, so that no event appears
/// there twice; the next round continues.
fn level(together: &mut [Untold]) {
    let mut upto: BTreeMap<String, i64> = BTreeMap::new();
    for news in together.iter() {
        let last = news.events.last().map_or(news.told_upto, |event| event.id);
        upto.entry(news.task.id.clone()).and_modify(|upto| *upto = last.min(*upto)).or_insert(last);
    }
    for news in together {
        let upto = upto.get(&news.task.id).copied().unwrap_or(i64::MAX);
        news.events.retain(|event| event.id <= upto);
    }
}

async fn tell(host: &Arc<Host>, together: &[Untold]) -> Result<(), StoreError> {
    let Some(first) = together.first() else { return Ok(()) };
    let Seat { instance, chat, .. } = first.seat.clone();
    let text = host.live().masker.mask(words::notice(&words::told(together))).into_owned();
    let delivery = match text.as_str() {
        // This batch holds only events without a notice; later events follow in the next round.
        "" => None,
        _ => Some(compose(host, &instance, chat, Purpose::Reply, text).await),
    };
    let wakes: Vec<NewWake> = words::woken(together).iter().filter_map(|news| wake(host, news)).collect();
    let telling = Telling { told: told_upto(together), delivery: delivery.clone(), wakes: wakes.clone() };
    let Some((owed, woken)) = host.store.task_tell(telling).await? else { return Ok(()) };
    host.carry(owed.into_iter().collect(), delivery.into_iter().collect()).await;
    for (inbox, wake) in woken.into_iter().zip(wakes) {
        if let Some(inbox) = inbox {
            wakeups::written(host, inbox, wake).await;
        }
    }
    Ok(())
}

/// Skips the events of a subscriber without access.
async fn tell_nothing(host: &Host, together: &[Untold]) -> Result<(), StoreError> {
    let Some(first) = together.first() else { return Ok(()) };
    tracing::info!(session = %first.session, "task subscriber no longer has access; events skipped");
    let telling = Telling { told: told_upto(together), delivery: None, wakes: Vec::new() };
    host.store.task_tell(telling).await.map(drop)
}

/// Returns the subscriber of each task, its old position, and its new one.
fn told_upto(together: &[Untold]) -> Vec<(String, SessionId, i64, i64)> {
    let upto = |news: &Untold| news.events.last().map_or(news.told_upto, |event| event.id);
    together.iter().map(|news| (news.task.id.clone(), news.session.clone(), news.told_upto, upto(news))).collect()
}

/// Builds the wake-up of one session.
fn wake(host: &Host, (listener, news): &(&Untold, Vec<words::News<'_>>)) -> Option<NewWake> {
    let (_, last) = news.last()?;
    let Seat { instance, chat, sender } = listener.seat.clone();
    let session = listener.session.clone();
    let id = format!("{WAKE}{session}:{}", last.id);
    Some(Wake { id, session, instance, chat, sender: Some(sender), text: words::wake(news) }.row(host))
}

/// Returns whether an event is the wake-up of a session because of a task, about which its chat has its own notice.
pub fn is_wake(event_id: &str) -> bool {
    event_id.strip_prefix("wake:").is_some_and(|id| id.starts_with(WAKE))
}
