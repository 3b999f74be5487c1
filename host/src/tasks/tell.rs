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

use super::words;
use crate::context::compose;
use crate::host::Host;
use crate::store::{Seat, StoreError, Telling, Untold};
use crate::wakes::{self, Wake};

/// How long one waits for more, so that a burst is told at once.
const TOGETHER_WITHIN: Duration = Duration::from_millis(400);

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

async fn tell_all(host: &Arc<Host>) -> Result<(), StoreError> {
    for _ in 0..ROUNDS_MAX {
        let untold = host.store.tasks_untold().await?;
        if untold.is_empty() {
            return Ok(());
        }
        for together in by_listener(untold) {
            tell(host, &together).await?;
        }
    }
    host.tasks.ring();
    Ok(())
}

/// What one session hears in one chat.
fn by_listener(untold: Vec<Untold>) -> Vec<Vec<Untold>> {
    let mut groups: BTreeMap<(String, String, String, String), Vec<Untold>> = BTreeMap::new();
    for news in untold {
        let chat = &news.seat.chat;
        let thread = chat.thread.clone().unwrap_or_default();
        let whose = (news.session.0.clone(), news.seat.instance.clone(), chat.id.clone(), thread);
        groups.entry(whose).or_default().push(news);
    }
    groups.into_values().collect()
}

async fn tell(host: &Arc<Host>, together: &[Untold]) -> Result<(), StoreError> {
    let Some(first) = together.first() else { return Ok(()) };
    if wakes::is_shut_out(host, &first.seat.instance, &first.seat.chat, &first.seat.sender) {
        tracing::info!(session = %first.session, "a subscriber of tasks may not speak any more; nothing is told");
        let telling = Telling { told: told_upto(together), delivery: None, wake: None };
        return host.store.task_tell(telling).await.map(drop);
    }
    let (told, wakes) = words::split(together);
    let Seat { instance, chat, sender } = first.seat.clone();
    let text = host.live().masker.mask(words::notice(&told)).into_owned();
    let delivery = match text.as_str() {
        // So much happened that is told to nobody that what is comes with the next round.
        "" => None,
        _ => Some(compose(host, &instance, chat.clone(), Purpose::Reply, text).await),
    };
    let wake = wakes.last().map(|(_, last)| Wake {
        id: format!("task:{}:{}", first.session, last.id),
        session: first.session.clone(),
        instance,
        chat,
        sender: Some(sender),
        text: words::wake(&wakes),
    });
    let wake = wake.map(|wake| wake.row(host));
    let telling = Telling { told: told_upto(together), delivery: delivery.clone(), wake: wake.clone() };
    let Some((owed, woken)) = host.store.task_tell(telling).await? else { return Ok(()) };
    host.carry(owed.into_iter().collect(), delivery.into_iter().collect()).await;
    if let (Some(inbox), Some(wake)) = (woken, wake) {
        wakes::written(host, inbox, wake).await;
    }
    Ok(())
}

/// For each task: its subscriber, up to where it was told before, and up to where it is from here on.
fn told_upto(together: &[Untold]) -> Vec<(String, SessionId, i64, i64)> {
    let upto = |news: &Untold| news.events.last().map_or(news.told_upto, |event| event.id);
    together.iter().map(|news| (news.task.id.clone(), news.session.clone(), news.told_upto, upto(news))).collect()
}
