//! What happened to tasks is told: by the adapter of the subscription, into the chat and
//! thread from which it was subscribed, once.
//!
//! What is owed and how far a subscriber was told are one transaction. Whatever happens
//! within a moment is told together; what a crash left untold is told at the next start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::ids::SessionId;
use hermes_protocol::Purpose;

use super::act::By;
use super::words;
use crate::context::compose;
use crate::host::Host;
use crate::store::{NewWake, Seat, StoreError, TaskKind, TaskRow, Telling, Untold};
use crate::wakes::{self, Wake};

/// How long one waits for more, so that a burst is told at once.
const TOGETHER_WITHIN: Duration = Duration::from_millis(400);

/// How the ids of what wakes sessions begin.
const WAKE: &str = "task:";

/// Rounds of one telling; the next ring goes on.
const ROUNDS_MAX: usize = 50;

/// Tells for as long as the host lives.
pub async fn tell_for_ever(host: Arc<Host>) {
    // What an earlier life of the host left untold.
    host.tasks.ring();
    loop {
        host.tasks.rang().await;
        if host.parking.run_until_cancelled(tokio::time::sleep(TOGETHER_WITHIN)).await.is_none() {
            return;
        }
        if let Err(error) = tell_all(&host).await {
            tracing::warn!(%error, "what happened to tasks is not told yet; it is tried again with the minute");
        }
    }
}

/// Takes those whose time is over from whoever does them, and rings for what could not be told before.
pub async fn minute(host: Arc<Host>) {
    match host.store.tasks_time_out(host.now_ms()).await {
        Ok(late) => {
            for task in &late {
                super::stop(&host, task).await;
            }
        }
        Err(error) => tracing::warn!(%error, "tasks whose time is over are not taken back; it is tried again"),
    }
    host.tasks.ring();
}

/// A turn of `/background` is taken from the host. It has no subscribers, since its chat hears its answer; where there
/// will be none, its chat hears that, unless it was said there.
pub(super) async fn taken(host: &Arc<Host>, task: &TaskRow, by: &By) {
    let work = task.worker.as_ref().and_then(|session| host.working.in_session(session));
    let Some(work) = work.filter(|_| task.kind == TaskKind::Background && by.key.as_ref() != Some(&task.key)) else {
        return;
    };
    let text = host.live().masker.mask(words::taken(task)).into_owned();
    let delivery = compose(host, &work.instance, work.chat, Purpose::Reply, text).await;
    let owed = host.until_written("that a turn was taken from the host", || host.store.owe(delivery.clone())).await;
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
                wakes::is_shut_out(host, instance, chat, sender)
            };
            let (none, some): (Vec<_>, Vec<_>) = together.into_iter().partition(shut_out);
            tell_nothing(host, &none).await?;
            tell(host, &some).await?;
        }
    }
    host.tasks.ring();
    Ok(())
}

/// What is heard in one chat, by whichever of its sessions.
fn by_chat(untold: Vec<Untold>) -> Vec<Vec<Untold>> {
    let mut groups: BTreeMap<(String, String, String), Vec<Untold>> = BTreeMap::new();
    for news in untold {
        let chat = &news.seat.chat;
        let place = (news.seat.instance.clone(), chat.id.clone(), chat.thread.clone().unwrap_or_default());
        groups.entry(place).or_default().push(news);
    }
    groups.into_values().collect()
}

/// Lets all who hear of one task in a chat hear up to the same place, so that nothing is told there twice; the next
/// round goes on.
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
        // So much happened that is told to nobody that what is comes with the next round.
        "" => None,
        _ => Some(compose(host, &instance, chat, Purpose::Reply, text).await),
    };
    let wakes: Vec<NewWake> = words::woken(together).iter().filter_map(|news| wake(host, news)).collect();
    let telling = Telling { told: told_upto(together), delivery: delivery.clone(), wakes: wakes.clone() };
    let Some((owed, woken)) = host.store.task_tell(telling).await? else { return Ok(()) };
    host.carry(owed.into_iter().collect(), delivery.into_iter().collect()).await;
    for (inbox, wake) in woken.into_iter().zip(wakes) {
        if let Some(inbox) = inbox {
            wakes::written(host, inbox, wake).await;
        }
    }
    Ok(())
}

/// Whoever may not speak any more hears nothing.
async fn tell_nothing(host: &Host, together: &[Untold]) -> Result<(), StoreError> {
    let Some(first) = together.first() else { return Ok(()) };
    tracing::info!(session = %first.session, "a subscriber of tasks may not speak any more; nothing is told");
    let telling = Telling { told: told_upto(together), delivery: None, wakes: Vec::new() };
    host.store.task_tell(telling).await.map(drop)
}

/// For each task: its subscriber, up to where it was told before, and up to where it is from here on.
fn told_upto(together: &[Untold]) -> Vec<(String, SessionId, i64, i64)> {
    let upto = |news: &Untold| news.events.last().map_or(news.told_upto, |event| event.id);
    together.iter().map(|news| (news.task.id.clone(), news.session.clone(), news.told_upto, upto(news))).collect()
}

/// What one session is woken with.
fn wake(host: &Host, (listener, news): &(&Untold, Vec<words::News<'_>>)) -> Option<NewWake> {
    let (_, last) = news.last()?;
    let Seat { instance, chat, sender } = listener.seat.clone();
    let session = listener.session.clone();
    let id = format!("{WAKE}{session}:{}", last.id);
    Some(Wake { id, session, instance, chat, sender: Some(sender), text: words::wake(news) }.row(host))
}

/// Whether an event wakes a session because of a task, of which its chat is told by itself.
pub fn is_wake(event_id: &str) -> bool {
    event_id.strip_prefix("wake:").is_some_and(|id| id.starts_with(WAKE))
}
