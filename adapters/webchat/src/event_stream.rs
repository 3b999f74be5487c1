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
use crate::listeners::StreamSeat;
use crate::refusal::refusal;
use crate::ring::{Cursor, Missed};

/// The interval of the heartbeat on a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The time before a page reconnects its stream.
const RETRY: Duration = Duration::from_millis(1_000);

#[derive(Deserialize)]
pub(crate) struct After {
    after: Option<String>,
}

/// A listening page.
struct Listener {
    link: Arc<Connection>,
    cursor: Cursor,
    queue: VecDeque<(u64, Arc<str>)>,
    news: watch::Receiver<u64>,
    generation: u64,
    _seat: StreamSeat,
}

/// Returns the stream of all events. `Last-Event-ID`, or `after` on the first connection,
/// names the last event that the page has received.
pub(crate) async fn stream_events(
    State(link): State<Arc<Connection>>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Response {
    let Some(seat) = StreamSeat::take() else {
        return refusal(StatusCode::TOO_MANY_REQUESTS, "too many tabs of this page are open; close some of them");
    };
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok().map(str::to_owned)).or(after);
    let cursor = match last {
        // An invalid cursor matches no run, so the page reloads everything.
        Some(text) => Cursor::parse(&text).unwrap_or(Cursor { life: String::new(), seq: 0 }),
        None => link.live.cursor(),
    };
    let (news, generation) = (link.live.news(), link.generation());
    let listener = Listener { link, cursor, queue: VecDeque::new(), news, generation, _seat: seat };
    let first = stream::iter([Ok::<_, Infallible>(sse::Event::default().retry(RETRY).comment("hello"))]);
    let events = first.chain(stream::unfold(listener, next_event));
    Sse::new(events).keep_alive(sse::KeepAlive::new().interval(HEARTBEAT).text("here")).into_response()
}

async fn next_event(mut listener: Listener) -> Option<(Result<sse::Event, Infallible>, Listener)> {
    loop {
        if listener.link.generation() != listener.generation {
            return None;
        }
        if let Some((seq, text)) = listener.queue.pop_front() {
            listener.cursor.seq = seq;
            let event = sse::Event::default().id(listener.cursor.to_string()).data(&*text);
            return Some((Ok(event), listener));
        }
        listener.news.mark_unchanged();
        match listener.link.live.after(&listener.cursor) {
            Missed::Events(events) if events.is_empty() => listener.news.changed().await.ok()?,
            Missed::Events(events) => listener.queue.extend(events),
            Missed::Reset(seq) => {
                listener.cursor = Cursor { life: listener.link.live.cursor().life, seq };
                let event = sse::Event::default().id(listener.cursor.to_string()).data(r#"{"type":"reset"}"#);
                return Some((Ok(event), listener));
            }
        }
    }
}
