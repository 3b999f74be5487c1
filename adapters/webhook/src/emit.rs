//! The emit of a call to the host: replay check, rate limit, and one event per signed content.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use hermes_adapter_sdk::prelude::*;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::replay::Marks;
use crate::response::{duplicate, host_refusal, json_response, retry_later, too_many};
use crate::route::Route;
use crate::server::{RouteState, Server};

/// The time in which the host must commit an event. Services wait ten seconds or more.
const EMIT_TIMEOUT: Duration = Duration::from_secs(8);

/// A call in transit to the host. The call continues even if its sender disconnects.
pub(crate) struct PendingCall {
    pub(crate) server: Arc<Server>,
    pub(crate) route: Arc<Route>,
    pub(crate) state: Arc<RouteState>,
    pub(crate) mark: Option<[u8; 8]>,
    pub(crate) is_signed: bool,
    pub(crate) event: Event,
    pub(crate) event_name: String,
    pub(crate) id: String,
    pub(crate) _place: OwnedSemaphorePermit,
}

impl PendingCall {
    /// Emits the call once. Two calls with the same bytes wait for each other.
    async fn emit(mut self) -> Response {
        let state = Arc::clone(&self.state);
        let mut slot = state.marks.lock().await;
        let marks = match &mut *slot {
            Some(marks) => marks,
            None => match Marks::load(&self.server.host, &self.route.name).await {
                Ok(marks) => slot.insert(marks),
                Err(error) => return retry_later(&error),
            },
        };
        let (host, route, now_ms) = (&self.server.host, &self.route, self.server.host.now_ms());
        if self.mark.is_some_and(|mark| marks.has(mark, now_ms)) {
            return duplicate(&self.id);
        }
        if let Err(wait_s) = state.rate().take(route.rate_per_minute, now_ms) {
            return too_many(route, wait_s);
        }
        if let Some(mark) = self.mark.filter(|_| !self.is_signed) {
            match marks.begin(mark, &self.event.event_id, now_ms, route.replay_s, (host, &route.name)).await {
                Ok(event_id) => self.event.event_id = event_id,
                Err(error) => {
                    state.rate().undo();
                    return retry_later(&error);
                }
            }
        }
        self.event.at_ms = now_ms;
        let emitted = match host.emit(&self.event).await {
            Ok(emitted) => emitted,
            Err(error) => {
                state.rate().undo();
                return host_refusal(&error);
            }
        };
        // After the host has the event: a mark that is stored earlier would lose a call that was never emitted.
        if let Some(mark) = self.mark {
            marks.record(mark, now_ms, route.replay_s);
            if marks.store(host, &route.name).await {
                marks.settle(mark);
            }
        }
        if let Emitted::Duplicate { .. } = emitted {
            state.rate().undo();
            return duplicate(&self.id);
        }
        tracing::info!(route = route.name, event = self.event_name, id = self.id, "call accepted");
        let body =
            json!({ "status": "accepted", "route": route.name, "event": self.event_name, "delivery_id": self.id });
        json_response(StatusCode::ACCEPTED, body)
    }
}

/// Emits a call in the background, and waits for its result for a limited time.
pub(crate) async fn emit(call: PendingCall) -> Response {
    match timeout(EMIT_TIMEOUT, tokio::spawn(call.emit())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => retry_later(&CallError::new("unavailable", "the adapter is shutting down")),
        // The emit continues; a repeated call is answered as a duplicate.
        Err(_) => retry_later(&CallError::new("unavailable", "the host did not answer in time")),
    }
}
