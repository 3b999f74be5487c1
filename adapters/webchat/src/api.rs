//! The HTTP routes and the page's files.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::{check_access, sign_in};
use crate::connection::Connection;
use crate::event_stream::stream_events;
use crate::files::{download, upload};
use crate::refusal::{Refusal, not_found, refusal};
use crate::requests::{ChoiceRequest, MessageRequest};
use crate::{conversations, inbound, sessions, view};

/// The maximum size of a JSON body, in bytes: a message of 256 KiB, escaped.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The time that the page waits for the host's list of sessions before it opens without it.
const SESSIONS_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum length of a search query, in characters.
const QUERY_CHARS_MAX: usize = 200;

type Connected = State<Arc<Connection>>;

type JsonResult = Result<Json<Value>, Refusal>;

/// Returns all routes, behind the guard.
pub(crate) fn router(connection: Arc<Connection>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(healthz))
        .route("/app.css", get(|| asset("text/css", include_str!("page/app.css"))))
        .route("/app.js", get(|| asset("text/javascript", include_str!("page/app.js"))))
        .route("/theme.js", get(|| asset("text/javascript", include_str!("page/theme.js"))))
        .route("/icon.svg", get(|| asset("image/svg+xml", include_str!("page/icon.svg"))))
        .route("/api/state", get(state))
        .route("/api/stream", get(stream_events))
        .route("/api/search", get(search))
        .route("/api/sessions/{id}", get(session_history).patch(rename_session).delete(delete_session))
        .route("/api/sessions/{id}/conversation", post(continue_session))
        .route("/api/conversations", post(create))
        .route("/api/conversations/{id}", get(read).patch(rename).delete(delete))
        .route("/api/conversations/{id}/messages", post(post_message))
        .route("/api/conversations/{id}/choices", post(post_choice))
        .route("/api/conversations/{id}/stop", post(stop))
        .route("/api/conversations/{id}/seen", post(mark_seen))
        .route("/api/conversations/{id}/files", post(upload).layer(DefaultBodyLimit::disable()))
        .route("/files/{conversation}/{file}", get(download))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "not found") })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&connection), check_access))
        .with_state(connection)
}

async fn asset(mime: &'static str, text: &'static str) -> Response {
    let mime = HeaderValue::from_static(mime);
    ([(header::CONTENT_TYPE, mime), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))], text)
        .into_response()
}

#[derive(Deserialize)]
struct TokenQuery {
    token: Option<String>,
}

/// Serves the page. A request with the valid token opens a page session and redirects to the address without the
/// token.
///
/// A link on another site is answered with the page itself, because the browser would not send the new cookie after
/// a redirect. The page then removes the token from the address bar.
async fn page(State(connection): Connected, Query(key): Query<TokenQuery>, headers: HeaderMap) -> Response {
    let Some(auth) = connection.auth() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the page is shutting down");
    };
    let html = [(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))];
    match key.token {
        Some(token) if auth.is_token(token.trim()) => {
            let from_elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
            let mut response = match from_elsewhere {
                true => (html, include_str!("page/index.html")).into_response(),
                false => (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static("/"))]).into_response(),
            };
            if let Some(cookie) = auth.set_cookie(connection.host.now_ms()) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        None if auth.session(&headers, connection.host.now_ms()).is_some() => {
            (html, include_str!("page/index.html")).into_response()
        }
        _ => sign_in(),
    }
}

async fn healthz(State(connection): Connected) -> String {
    format!("ok {}\n", connection.incarnation)
}

async fn state(State(connection): Connected) -> Json<Value> {
    // A slow host does not keep the page from opening.
    let updates = async {
        sessions::refresh(&connection).await;
        sessions::refresh_commands(&connection).await;
    };
    if tokio::time::timeout(SESSIONS_TIMEOUT, updates).await.is_err() {
        tracing::info!("list of sessions is late; opening the page with the known ones");
    }
    let cursor = connection.live.cursor();
    let (conversations, sessions) = sessions::list(&connection).await;
    Json(json!({
        "cursor": cursor.to_string(),
        "instance": connection.host.instance(),
        "conversations": conversations,
        "sessions": sessions,
        "commands": connection.live.commands(),
        "upload_bytes_max": connection.upload_bytes_max(),
    }))
}

async fn create(State(connection): Connected) -> JsonResult {
    let line = conversations::create(&connection, "").await?;
    Ok(Json(view::conversation_json(&connection, &line)))
}

#[derive(Deserialize)]
struct SearchQuery {
    q: String,
}

async fn search(State(connection): Connected, Query(SearchQuery { q }): Query<SearchQuery>) -> JsonResult {
    let query: String = q.chars().take(QUERY_CHARS_MAX).collect();
    Ok(Json(json!(sessions::search(&connection, &query).await?)))
}

async fn session_history(
    State(connection): Connected,
    Path(id): Path<String>,
) -> Result<Json<impl Serialize>, Refusal> {
    Ok(Json(sessions::history(&connection, &id).await?))
}

async fn rename_session(
    State(connection): Connected,
    Path(id): Path<String>,
    Json(TitleBody { title }): Json<TitleBody>,
) -> JsonResult {
    let title = sessions::rename(&connection, &id, &conversations::clean_title(&title)?).await?;
    sessions::refresh(&connection).await;
    Ok(Json(json!({ "title": title })))
}

async fn delete_session(State(connection): Connected, Path(id): Path<String>) -> JsonResult {
    sessions::delete(&connection, &id).await?;
    sessions::refresh(&connection).await;
    Ok(Json(json!({})))
}

async fn continue_session(State(connection): Connected, Path(id): Path<String>) -> JsonResult {
    let line = conversations::continue_session(&connection, &id).await?;
    Ok(Json(view::conversation_json(&connection, &line)))
}

#[derive(Deserialize)]
struct PageQuery {
    before: Option<u32>,
}

async fn read(
    State(connection): Connected,
    Path(id): Path<String>,
    Query(PageQuery { before }): Query<PageQuery>,
) -> JsonResult {
    // Taken before the log is read: later events follow on the stream, and the page recognizes entries by their ids.
    let (cursor, turns) = connection.live.snapshot(&id);
    let line = connection.log.conversation(&id).await.ok_or_else(not_found)?;
    let excerpt = connection.log.read(&id, before).await?.ok_or_else(not_found)?;
    let entries: Vec<Value> = excerpt.entries.iter().map(|entry| view::entry_json(&id, entry)).collect();
    Ok(Json(json!({
        "cursor": cursor.to_string(),
        "conversation": view::conversation_json(&connection, &line),
        "entries": entries,
        "before": excerpt.before,
        "turns": turns,
    })))
}

#[derive(Deserialize)]
struct TitleBody {
    title: String,
}

async fn rename(
    State(connection): Connected,
    Path(id): Path<String>,
    Json(TitleBody { title }): Json<TitleBody>,
) -> JsonResult {
    let line = conversations::rename(&connection, &id, &title).await?;
    Ok(Json(view::conversation_json(&connection, &line)))
}

async fn delete(State(connection): Connected, Path(id): Path<String>) -> JsonResult {
    conversations::delete(&connection, &id).await?;
    Ok(Json(json!({})))
}

async fn post_message(
    State(connection): Connected,
    Path(id): Path<String>,
    Json(message): Json<MessageRequest>,
) -> JsonResult {
    let entry = inbound::submit_message(&connection, &id, message).await?;
    Ok(Json(view::entry_json(&id, &entry)))
}

async fn post_choice(
    State(connection): Connected,
    Path(id): Path<String>,
    Json(choice): Json<ChoiceRequest>,
) -> JsonResult {
    inbound::submit_choice(&connection, &id, choice).await?;
    Ok(Json(json!({})))
}

async fn stop(State(connection): Connected, Path(id): Path<String>) -> Result<Json<impl Serialize>, Refusal> {
    Ok(Json(inbound::stop(&connection, &id).await?))
}

async fn mark_seen(State(connection): Connected, Path(id): Path<String>) -> JsonResult {
    if connection.log.conversation(&id).await.ok_or_else(not_found)?.unread {
        if let Some(line) = connection.log.change(&id, |line| line.unread = false).await? {
            view::publish_conversation(&connection, &line);
        }
    }
    Ok(Json(json!({})))
}
