//! The stream of events to a listening page.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tokio::sync::watch;

use crate::connection::Connection;
use crate::listeners::StreamSlot;
use crate::refusal::refusal;
use crate::ring::{Backlog, Cursor};

/// The interval of the heartbeat on a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The time before a page reconnects its stream.
const RETRY: Duration = Duration::from_millis(1_000);

#[derive(Deserialize)]
pub(crate) struct StreamQuery {
    after: Option<String>,
}

/// A listening page.
struct Listener {
    connection: Arc<Connection>,
    cursor: Cursor,
    queue: VecDeque<(u64, Arc<str>)>,
    changes: watch::Receiver<u64>,
    generation: u64,
    _slot: StreamSlot,
}

/// Returns the stream of all events. `Last-Event-ID`, or `after` on the first connection,
/// names the last event that the page has received.
pub(crate) async fn stream_events(
    State(connection): State<Arc<Connection>>,
    Query(StreamQuery { after }): Query<StreamQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(slot) = StreamSlot::take() else {
        return refusal(StatusCode::TOO_MANY_REQUESTS, "too many tabs of this page are open; close some of them");
    };
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok().map(str::to_owned)).or(after);
    let cursor = match last {
        // An invalid cursor matches no run, so the page reloads everything.
        Some(text) => Cursor::parse(&text).unwrap_or(Cursor { incarnation: String::new(), seq: 0 }),
        None => connection.live.cursor(),
    };
    let (changes, generation) = (connection.live.changes(), connection.generation());
    let listener = Listener { connection, cursor, queue: VecDeque::new(), changes, generation, _slot: slot };
    let first = stream::iter([Ok::<_, Infallible>(sse::Event::default().retry(RETRY).comment("hello"))]);
    let events = first.chain(stream::unfold(listener, next_event));
    Sse::new(events).keep_alive(sse::KeepAlive::new().interval(HEARTBEAT).text("here")).into_response()
}

async fn next_event(mut listener: Listener) -> Option<(Result<sse::Event, Infallible>, Listener)> {
    loop {
        if listener.connection.generation() != listener.generation {
            return None;
        }
        if let Some((seq, text)) = listener.queue.pop_front() {
            listener.cursor.seq = seq;
            let event = sse::Event::default().id(listener.cursor.to_string()).data(&*text);
            return Some((Ok(event), listener));
        }
        listener.changes.mark_unchanged();
        match listener.connection.live.after(&listener.cursor) {
            Backlog::Events(events) if events.is_empty() => listener.changes.changed().await.ok()?,
            Backlog::Events(events) => listener.queue.extend(events),
            Backlog::Reset(seq) => {
                listener.cursor = Cursor { incarnation: listener.connection.live.cursor().incarnation, seq };
                let event = sse::Event::default().id(listener.cursor.to_string()).data(r#"{"type":"reset"}"#);
                return Some((Ok(event), listener));
            }
        }
    }
}
