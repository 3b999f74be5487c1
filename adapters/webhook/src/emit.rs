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
use crate::response::{duplicate, later, not_taken, said, too_many};
use crate::route::Route;
use crate::server::{Door, Memory};

/// The time in which the host must commit an event. Services wait ten seconds or more.
const EMIT_TIMEOUT: Duration = Duration::from_secs(8);

/// A call in transit to the host. The call continues even if its sender disconnects.
pub struct Handing {
    pub door: Arc<Door>,
    pub route: Arc<Route>,
    pub memory: Arc<Memory>,
    pub mark: Option<[u8; 8]>,
    pub is_signed: bool,
    pub event: Event,
    pub about: String,
    pub id: String,
    pub _place: OwnedSemaphorePermit,
}

impl Handing {
    /// Emits the call once. Two calls with the same bytes wait for each other.
    async fn over(mut self) -> Response {
        let memory = Arc::clone(&self.memory);
        let mut held = memory.marks.lock().await;
        let marks = match &mut *held {
            Some(marks) => marks,
            None => match Marks::load(&self.door.host, &self.route.name).await {
                Ok(marks) => held.insert(marks),
                Err(error) => return later(&error),
            },
        };
        let (host, route, now_ms) = (&self.door.host, &self.route, self.door.host.now_ms());
        if self.mark.is_some_and(|mark| marks.has(mark, now_ms)) {
            return duplicate(&self.id);
        }
        if let Err(wait_s) = memory.rate().take(route.rate_per_minute, now_ms) {
            return too_many(route, wait_s);
        }
        if let Some(mark) = self.mark.filter(|_| !self.is_signed) {
            match marks.begin(mark, &self.event.event_id, now_ms, route.replay_s, (host, &route.name)).await {
                Ok(event_id) => self.event.event_id = event_id,
                Err(error) => {
                    memory.rate().give_back();
                    return later(&error);
                }
            }
        }
        self.event.at_ms = now_ms;
        let emitted = match host.emit(&self.event).await {
            Ok(emitted) => emitted,
            Err(error) => {
                memory.rate().give_back();
                return not_taken(&error);
            }
        };
        // After the host has the event: a mark that is stored earlier would lose a call that was never emitted.
        if let Some(mark) = self.mark {
            marks.note(mark, now_ms, route.replay_s);
            if marks.keep(host, &route.name).await {
                marks.settle(mark);
            }
        }
        if let Emitted::Duplicate { .. } = emitted {
            memory.rate().give_back();
            return duplicate(&self.id);
        }
        tracing::info!(route = route.name, event = self.about, id = self.id, "call accepted");
        let words = json!({ "status": "accepted", "route": route.name, "event": self.about, "delivery_id": self.id });
        said(StatusCode::ACCEPTED, words)
    }
}

/// Starts the emit and waits for its result, for a limited time.
pub async fn take(handing: Handing) -> Response {
    match timeout(EMIT_TIMEOUT, tokio::spawn(handing.over())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => later(&CallError::new("unavailable", "the adapter is shutting down")),
        // The emit continues; a repeated call is answered as a duplicate.
        Err(_) => later(&CallError::new("unavailable", "the host did not answer in time")),
    }
}
