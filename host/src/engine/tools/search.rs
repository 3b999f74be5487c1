//! Search in conversations, for an agent: limited to the requester's own.

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::{Search, SearchResult};
use hermes_core::context::TurnContext;

use super::Lent;
use hermes_store::SearchHit;

/// Hits in which those of one conversation are searched.
const WIDE: u32 = 100;

impl Search for Lent {
    fn search<'s>(
        &'s self,
        context: &'s TurnContext,
        query: &'s str,
        limit: u32,
    ) -> BoxFuture<'s, Result<Vec<SearchResult>, String>> {
        Box::pin(async move {
            let host = self.host()?;
            let hits = match context.owner.as_str() {
                // Several people read the answer, or the requester is unknown: only hits of this conversation are
                // allowed.
                "" => {
                    let hits = host.store.search(query, WIDE).await;
                    let here = |hit: &SearchHit| context.session_id.as_ref() == Some(&hit.session);
                    hits.map(|hits| hits.into_iter().filter(here).take(limit as usize).collect())
                }
                owner => host.store.search_owned(query, Some(owner), limit).await,
            };
            let hits: Vec<SearchHit> =
                hits.map_err(|error| format!("the conversations could not be searched ({error})"))?;
            Ok(hits.into_iter().map(told).collect())
        })
    }
}

fn told(hit: SearchHit) -> SearchResult {
    SearchResult {
        session: hit.session.0,
        title: hit.title.unwrap_or_default(),
        role: hit.role,
        snippet: hit.snippet,
        at_ms: hit.at_ms,
    }
}
