//! Tasks, for an agent: bound to whoever asks.

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::{TaskWish, Tasks};
use hermes_core::context::TurnContext;
use serde_json::Value;

use super::Lent;
use crate::tasks::act;

impl Tasks for Lent {
    fn act<'t>(&'t self, context: &'t TurnContext, wish: TaskWish) -> BoxFuture<'t, Result<Value, String>> {
        Box::pin(async move { act::act(&self.host()?, context, wish).await })
    }

    fn began<'t>(&'t self, context: &'t TurnContext, title: &'t str) -> BoxFuture<'t, Option<String>> {
        Box::pin(async move { act::began(&self.host().ok()?, context, title).await })
    }

    fn ended<'t>(&'t self, task: &'t str, end: Result<String, String>) -> BoxFuture<'t, ()> {
        Box::pin(async move {
            // A host that ends finds it running at its next start.
            if let Ok(host) = self.host() {
                act::ended(&host, task, end).await;
            }
        })
    }
}
