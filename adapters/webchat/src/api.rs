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

use crate::access::{guard, sign_in};
use crate::connection::Connection;
use crate::event_stream::stream_events;
use crate::files::{download, upload};
use crate::refusal::{Refusal, not_found, refusal};
use crate::requests::{Pressed, Said};
use crate::{conversations, inbound, sessions, view};

/// The maximum size of a JSON body, in bytes: a message of 256 KiB, escaped.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The time that the page waits for the host's list of sessions before it opens without it.
const ASKED_WITHIN: Duration = Duration::from_secs(1);

/// The maximum length of a search query, in characters.
const QUERY_CHARS_MAX: usize = 200;

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
        _ => sign_in(),
    }
}

async fn healthz(State(link): Link) -> String {
    format!("ok {}\n", link.life)
}

async fn state(State(link): Link) -> Json<Value> {
    // A slow host does not keep the page from opening.
    let asked = async {
        sessions::refresh(&link).await;
        sessions::refresh_commands(&link).await;
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
    let line = conversations::begin(&link, "").await?;
    Ok(Json(view::line(&link, &line)))
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
    let title = sessions::rename(&link, &id, &conversations::clean_title(&title)?).await?;
    sessions::refresh(&link).await;
    Ok(Json(json!({ "title": title })))
}

async fn delete_session(State(link): Link, Path(id): Path<String>) -> Answer {
    sessions::delete(&link, &id).await?;
    sessions::refresh(&link).await;
    Ok(Json(json!({})))
}

async fn go_on(State(link): Link, Path(id): Path<String>) -> Answer {
    let line = conversations::go_on(&link, &id).await?;
    Ok(Json(view::line(&link, &line)))
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
    let entries: Vec<Value> = excerpt.entries.iter().map(|entry| view::shown(&id, entry)).collect();
    Ok(Json(json!({
        "cursor": cursor.to_string(),
        "conversation": view::line(&link, &line),
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
    let line = conversations::rename(&link, &id, &title).await?;
    Ok(Json(view::line(&link, &line)))
}

async fn delete(State(link): Link, Path(id): Path<String>) -> Answer {
    conversations::delete(&link, &id).await?;
    Ok(Json(json!({})))
}

async fn say(State(link): Link, Path(id): Path<String>, Json(said): Json<Said>) -> Answer {
    let entry = inbound::say(&link, &id, said).await?;
    Ok(Json(view::shown(&id, &entry)))
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
        view::tell_conversation(&link, &line);
    }
    Ok(Json(json!({})))
}
