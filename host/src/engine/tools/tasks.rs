//! Tasks, for an agent: limited to the requester's own.

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::{TaskAction, Tasks};
use hermes_core::context::TurnContext;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Lent;
use crate::engine::background::tasks::{act, helpers};

impl Tasks for Lent {
    fn act<'t>(&'t self, context: &'t TurnContext, wish: TaskAction) -> BoxFuture<'t, Result<Value, String>> {
        Box::pin(async move { act::act(&self.host()?, context, wish).await })
    }

    fn began<'t>(
        &'t self,
        context: &'t TurnContext,
        title: &'t str,
        stop: CancellationToken,
    ) -> BoxFuture<'t, Result<Option<String>, String>> {
        Box::pin(async move { helpers::began(&self.host()?, context, title, stop).await.map(Some) })
    }

    fn ended<'t>(&'t self, task: &'t str, end: Result<String, String>) -> BoxFuture<'t, bool> {
        Box::pin(async move {
            match self.host() {
                Ok(host) => helpers::ended(&host, task, end).await,
                // A host that has ended finds the task running at its next start, and reports that.
                Err(_) => true,
            }
        })
    }
}
