//! The HTTP routes and the page's files.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use futures_util::{StreamExt, stream};
use hermes_adapter_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::connection::{Connection, Upload};
use crate::door::{self, guard};
use crate::inbound::{self, Pressed, Said};
use crate::live::{Cursor, Missed};
use crate::{outbound, sessions};

/// The maximum size of a JSON body, in bytes: a message of 256 KiB, escaped.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The maximum number of pages that listen at the same time.
const STREAMS_MAX: usize = 32;
/// The interval of the heartbeat on a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The maximum pause between two chunks of an upload.
const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The time that the page waits for the host's list of sessions before it opens without it.
const ASKED_WITHIN: Duration = Duration::from_secs(1);
/// The maximum length of a search query, in characters.
const QUERY_CHARS_MAX: usize = 200;
/// The time before a page reconnects its stream.
const RETRY: Duration = Duration::from_millis(1_000);

type Link = State<Arc<Connection>>;
type Answer = Result<Json<Value>, Refusal>;

/// Returns all routes, behind the guard.
pub(crate) fn router(link: Arc<Connection>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(healthz))
        .route("/app.css", get(|| asset("text/css", include_str!("page/app.css"))))
        .route("/app.js", get(|| asset("text/javascript", include_str!("page/app.js"))))
        .route("/markdown.js", get(|| asset("text/javascript", include_str!("page/markdown.js"))))
        .route("/theme.js", get(|| asset("text/javascript", include_str!("page/theme.js"))))
        .route("/icon.svg", get(|| asset("image/svg+xml", include_str!("page/icon.svg"))))
        .route("/api/state", get(state))
        .route("/api/stream", get(stream_events))
        .route("/api/search", get(search))
        .route("/api/sessions/{id}", get(past).patch(rename_session).delete(delete_session))
        .route("/api/sessions/{id}/conversation", post(go_on))
        .route("/api/conversations", post(create))
        .route("/api/conversations/{id}", get(read).patch(rename).delete(delete))
        .route("/api/conversations/{id}/messages", post(say))
        .route("/api/conversations/{id}/choices", post(press))
        .route("/api/conversations/{id}/stop", post(stop))
        .route("/api/conversations/{id}/seen", post(seen))
        .route("/api/conversations/{id}/files", post(upload).layer(DefaultBodyLimit::disable()))
        .route("/files/{conversation}/{file}", get(download))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "not found") })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&link), guard))
        .with_state(link)
}

/// Returns an error response with its reason.
pub(crate) fn refusal(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// An error of the adapter or the host, as a response to the page.
struct Refusal(CallError);

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0.code.as_str() {
            "invalid" => StatusCode::BAD_REQUEST,
            "not_found" => StatusCode::NOT_FOUND,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "busy" => StatusCode::TOO_MANY_REQUESTS,
            "refused" => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        };
        refusal(status, &self.0.message)
    }
}

fn not_found() -> Refusal {
    Refusal(CallError::new("not_found", "this conversation does not exist"))
}

async fn asset(mime: &'static str, text: &'static str) -> Response {
    let mime = HeaderValue::from_static(mime);
    ([(header::CONTENT_TYPE, mime), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))], text)
        .into_response()
}

#[derive(Deserialize)]
struct Key {
    token: Option<String>,
}

/// Serves the page. A request with the valid token opens a page session and redirects to the address without the
/// token.
///
/// A link on another site is answered with the page itself, because the browser would not send the new cookie after
/// a redirect. The page then removes the token from the address bar.
async fn page(State(link): Link, Query(key): Query<Key>, headers: HeaderMap) -> Response {
    let Some(door) = link.door() else { return refusal(StatusCode::SERVICE_UNAVAILABLE, "the page is shutting down") };
    let html = [(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))];
    match key.token {
        Some(token) if door.opens(token.trim()) => {
            let from_elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
            let mut response = match from_elsewhere {
                true => (html, include_str!("page/index.html")).into_response(),
                false => (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static("/"))]).into_response(),
            };
            if let Some(cookie) = door.set_cookie(link.host.now_ms()) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        None if door.session(&headers, link.host.now_ms()).is_some() => {
            (html, include_str!("page/index.html")).into_response()
        }
        _ => door::sign_in(),
    }
}

async fn healthz(State(link): Link) -> String {
    format!("ok {}\n", link.life)
}

async fn state(State(link): Link) -> Json<Value> {
    // A slow host does not keep the page from opening.
    let asked = async {
        sessions::refresh(&link).await;
        link.ask_commands().await;
    };
    if tokio::time::timeout(ASKED_WITHIN, asked).await.is_err() {
        tracing::info!("list of sessions is late; opening the page with the known ones");
    }
    let cursor = link.live.cursor();
    let (conversations, sessions) = sessions::list(&link).await;
    Json(json!({
        "cursor": cursor.to_string(),
        "instance": link.host.instance(),
        "conversations": conversations,
        "sessions": sessions,
        "commands": link.live.commands(),
        "upload_bytes_max": link.upload_bytes_max(),
    }))
}

async fn create(State(link): Link) -> Answer {
    let line = inbound::begin(&link, "").await?;
    Ok(Json(outbound::line(&link, &line)))
}

#[derive(Deserialize)]
struct Wanted {
    q: String,
}

async fn search(State(link): Link, Query(Wanted { q }): Query<Wanted>) -> Answer {
    let query: String = q.chars().take(QUERY_CHARS_MAX).collect();
    Ok(Json(json!(sessions::search(&link, &query).await?)))
}

async fn past(State(link): Link, Path(id): Path<String>) -> Result<Json<impl Serialize>, Refusal> {
    Ok(Json(sessions::past(&link, &id).await?))
}

async fn rename_session(State(link): Link, Path(id): Path<String>, Json(Title { title }): Json<Title>) -> Answer {
    let title = sessions::rename(&link, &id, &inbound::clean_title(&title)?).await?;
    sessions::refresh(&link).await;
    Ok(Json(json!({ "title": title })))
}

async fn delete_session(State(link): Link, Path(id): Path<String>) -> Answer {
    sessions::delete(&link, &id).await?;
    sessions::refresh(&link).await;
    Ok(Json(json!({})))
}

async fn go_on(State(link): Link, Path(id): Path<String>) -> Answer {
    let line = sessions::go_on(&link, &id).await?;
    Ok(Json(outbound::line(&link, &line)))
}

#[derive(Deserialize)]
struct Before {
    before: Option<u32>,
}

async fn read(State(link): Link, Path(id): Path<String>, Query(Before { before }): Query<Before>) -> Answer {
    // Taken before the log is read: later events follow on the stream, and the page recognizes entries by their ids.
    let (cursor, turns) = link.live.snapshot(&id);
    let line = link.log.conversation(&id).await.ok_or_else(not_found)?;
    let excerpt = link.log.read(&id, before).await?.ok_or_else(not_found)?;
    let entries: Vec<Value> = excerpt.entries.iter().map(|entry| outbound::shown(&id, entry)).collect();
    Ok(Json(json!({
        "cursor": cursor.to_string(),
        "conversation": outbound::line(&link, &line),
        "entries": entries,
        "before": excerpt.before,
        "turns": turns,
    })))
}

#[derive(Deserialize)]
struct Title {
    title: String,
}

async fn rename(State(link): Link, Path(id): Path<String>, Json(Title { title }): Json<Title>) -> Answer {
    let line = inbound::rename(&link, &id, &title).await?;
    Ok(Json(outbound::line(&link, &line)))
}

async fn delete(State(link): Link, Path(id): Path<String>) -> Answer {
    inbound::delete(&link, &id).await?;
    Ok(Json(json!({})))
}

async fn say(State(link): Link, Path(id): Path<String>, Json(said): Json<Said>) -> Answer {
    let entry = inbound::say(&link, &id, said).await?;
    Ok(Json(outbound::shown(&id, &entry)))
}

async fn press(State(link): Link, Path(id): Path<String>, Json(pressed): Json<Pressed>) -> Answer {
    inbound::press(&link, &id, pressed).await?;
    Ok(Json(json!({})))
}

async fn stop(State(link): Link, Path(id): Path<String>) -> Result<Json<impl Serialize>, Refusal> {
    Ok(Json(inbound::stop(&link, &id).await?))
}

async fn seen(State(link): Link, Path(id): Path<String>) -> Answer {
    if link.log.conversation(&id).await.ok_or_else(not_found)?.unread
        && let Some(line) = link.log.change(&id, |line| line.unread = false).await?
    {
        outbound::tell_conversation(&link, &line);
    }
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Receives one file and streams it into the host's media folder.
async fn upload(
    State(link): Link,
    Path(id): Path<String>,
    Query(Named { name }): Query<Named>,
    request: Request,
) -> Answer {
    let max = link.upload_bytes_max();
    let too_large = || CallError::new("too_large", format!("the file is larger than {} MiB", max / (1024 * 1024)));
    link.log.conversation(&id).await.ok_or_else(not_found)?;
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let size: Option<u64> = header(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    if size.is_some_and(|size| size > max) {
        return Err(too_large().into());
    }
    let mime = header(header::CONTENT_TYPE).unwrap_or("application/octet-stream").to_owned();
    let name: String =
        name.rsplit(['/', '\\']).next().unwrap_or("").chars().filter(|c| !c.is_control()).take(200).collect();
    let name = if name.trim_matches(['.', ' ']).is_empty() { "file".to_owned() } else { name };
    let slot = link.host.media().create(MediaCreate::new(name.as_str(), mime.as_str(), size)).await?;
    write_file(&slot.path, body, max).await?;
    let info = link.host.media().commit(&slot.id).await?;
    let kind = kind_of(&mime);
    let attachment = Attachment::new(slot.id.as_str(), kind, mime.as_str(), name.as_str(), info.size);
    link.keep_upload(Upload { conversation: id, attachment, path: slot.path });
    Ok(Json(json!({ "id": slot.id, "name": name, "mime": mime, "size": info.size })))
}

async fn write_file(path: &str, body: Body, max: u64) -> Result<(), CallError> {
    let failed = |error: std::io::Error| CallError::new("unavailable", format!("the file cannot be saved: {error}"));
    let mut file = tokio::fs::File::create(path).await.map_err(failed)?;
    let mut pieces = body.into_data_stream();
    let mut written = 0_u64;
    loop {
        let piece: Bytes = match tokio::time::timeout(UPLOAD_PAUSE_MAX, pieces.next()).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => return Err(CallError::new("invalid", "the upload was cut off")),
            Ok(None) => break,
            Err(_) => return Err(CallError::new("invalid", "the upload timed out")),
        };
        written += piece.len() as u64;
        if written > max {
            return Err(CallError::new("too_large", format!("the file is larger than {} MiB", max / (1024 * 1024))));
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)
}

fn kind_of(mime: &str) -> AttachmentKind {
    match mime.split('/').next() {
        Some("image") => AttachmentKind::Image,
        Some("video") => AttachmentKind::Video,
        Some("audio") => AttachmentKind::Audio,
        _ => AttachmentKind::File,
    }
}

/// Returns a file of the conversation. Images of safe types are shown; other files are
/// saved, so that no uploaded file can run as a part of this page.
async fn download(State(link): Link, Path((conversation, file)): Path<(String, String)>) -> Result<Response, Refusal> {
    let missing = || Refusal(CallError::new("not_found", "this file is no longer stored"));
    let file = link.log.file(&conversation, &file).await?.ok_or_else(missing)?;
    let opened = tokio::fs::File::open(&file.path).await.map_err(|_| missing())?;
    let shown = matches!(file.mime.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    let pieces = stream::unfold(opened, |mut file| async move {
        use tokio::io::AsyncReadExt;
        let mut piece = vec![0; 64 * 1024];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some((Ok::<_, std::io::Error>(Bytes::from(piece)), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    let mut response = Body::from_stream(pieces).into_response();
    let mime = if shown { file.mime.as_str() } else { "application/octet-stream" };
    let ascii: String =
        file.name.chars().map(|c| if c.is_ascii_alphanumeric() || " ._-".contains(c) { c } else { '_' }).collect();
    let disposition = format!("{}; filename=\"{ascii}\"", if shown { "inline" } else { "attachment" });
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, mime), (header::CONTENT_DISPOSITION, &disposition)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(response)
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

/// The number of listening pages.
static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// Returns whether any page is open.
pub(crate) fn is_looked_at() -> bool {
    STREAMS.load(Ordering::SeqCst) > 0
}

struct StreamSeat;

impl StreamSeat {
    fn take() -> Option<Self> {
        let taken = STREAMS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < STREAMS_MAX).then_some(n + 1));
        taken.ok().map(|_| Self)
    }
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::SeqCst);
    }
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
async fn stream_events(State(link): Link, Query(After { after }): Query<After>, headers: HeaderMap) -> Response {
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
