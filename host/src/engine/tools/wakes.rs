//! Wake-ups for background work of tools: stored before a tool promises one, and delivered once.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hermes_agent::tools::output::bounded;
use hermes_agent::tools::ports::{JobUpdate, Subscription, Wakeups};
use hermes_core::context::TurnContext;
use hermes_protocol::Sender;

use super::Lent;
use crate::engine::background::wakeups::{Wake, written};
use crate::engine::runtime::Host;
use hermes_store::{NewWatch, WatchTold};

/// The longest stored description of the work, in bytes.
const WHAT_BYTES_MAX: usize = 300;

impl Wakeups for Lent {
    fn is_available(&self) -> bool {
        self.host().is_ok()
    }

    fn subscribe<'w>(
        &'w self,
        context: &'w TurnContext,
        id: &'w str,
        what: &'w str,
    ) -> BoxFuture<'w, Result<(), String>> {
        Box::pin(async move {
            let host = self.host()?;
            let session = context.session_id.clone().ok_or("this turn has no session")?;
            let sender = Sender::new(context.user_id.as_str()).named(context.user_name.as_str());
            let watch = NewWatch {
                id: id.to_owned(),
                session,
                instance: context.source.clone(),
                chat_id: context.chat_id.clone(),
                sender: Some(sender).filter(|sender| !sender.id.is_empty()),
                what: bounded(&host.live().masker.mask(what), WHAT_BYTES_MAX),
                epoch: host.epoch,
            };
            host.store.follow(watch).await.map_err(|error| format!("it could not be saved ({error})"))
        })
    }

    fn subscription<'w>(&'w self, id: &'w str) -> BoxFuture<'w, Option<Subscription>> {
        Box::pin(async move {
            let row = self.host().ok()?.store.watch(id).await;
            let row =
                row.inspect_err(|error| tracing::error!(id, %error, "watch of a background job could not be read"));
            row.ok()?.map(|row| Subscription { upto: row.upto, notified: row.told })
        })
    }

    fn notify(&self, news: JobUpdate) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Without a host the next run delivers the news.
            if let Ok(host) = self.host() {
                tell(&host, &news).await;
            }
        })
    }

    fn unsubscribe<'w>(&'w self, id: &'w str) -> BoxFuture<'w, ()> {
        Box::pin(async move {
            if let Ok(host) = self.host() {
                // As above; the next run delivers news that is known already.
                host.until_written("the end of a watch", || host.store.forget_watch(id)).await;
            }
        })
    }
}

/// Delivers news to the session that follows the work, once.
pub(crate) async fn tell(host: &Arc<Host>, news: &JobUpdate) {
    let row = match host.store.watch(&news.id).await {
        Ok(Some(row)) => row,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(id = news.id, %error, "update of a background job could not be reported; the next start reports it");
            return;
        }
    };
    let wake = Wake {
        id: format!("{}:{}", row.id, row.told + 1),
        session: row.session,
        instance: row.instance,
        chat: row.chat,
        sender: row.sender,
        text: news.text.clone(),
    };
    let wake = wake.row(host);
    let told = WatchTold { id: row.id, before: row.told, upto: news.upto, last: news.last, wake: wake.clone() };
    let inbox = host.until_written("a wake-up", || host.store.tell(told.clone())).await.flatten();
    if let Some(inbox) = inbox {
        written(host, inbox, wake).await;
    }
}
