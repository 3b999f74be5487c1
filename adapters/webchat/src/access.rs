//! Access control for every request, and the headers of every response.
//!
//! Three checks precede every request:
//!
//! * **Host**: only the names under which this page is served. A name that DNS rebinding points to loopback is
//!   rejected.
//! * **Origin**: requests that a browser sends from another site are rejected; a request that changes state must
//!   name its origin.
//! * **Token**: in the first request only, from the printed link. The token opens a page session, whose cookie is
//!   derived from the token, so that another token ends every session. Scripts cannot read the cookie and other sites
//!   cannot send it. Both are compared in constant time.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hermes_adapter_net::serve::Caller;

use crate::connection::Connection;
use crate::http_auth::{HttpAuth, PageSession};
use crate::refusal::refusal;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Checks Host, Origin and, except for the page's own files, the session. Sets the headers of every response.
pub(crate) async fn check_access(State(connection): State<Arc<Connection>>, request: Request, next: Next) -> Response {
    let now_ms = connection.host.now_ms();
    let auth = connection.auth();
    let session = auth.as_ref().and_then(|auth| auth.session(request.headers(), now_ms));
    let mut response = match check_request(auth.as_deref(), session, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    if session.is_some_and(|session| session.is_old) && response.status().is_success() {
        if let Some(cookie) = auth.and_then(|auth| auth.set_cookie(now_ms)) {
            response.headers_mut().entry(header::SET_COOKIE).or_insert(cookie);
        }
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn check_request(auth: Option<&HttpAuth>, session: Option<PageSession>, request: &Request) -> Option<Response> {
    let Some(auth) = auth else {
        return Some(refusal(StatusCode::SERVICE_UNAVAILABLE, "the page is shutting down"));
    };
    if !auth.allows_host(request.headers()) {
        return Some(refusal(StatusCode::FORBIDDEN, "this host name is not allowed; add it to `allowed_hosts`"));
    }
    let path = request.uri().path();
    let is_data = path.starts_with("/api/") || path.starts_with("/files/");
    // A link from any site may open the page itself.
    if (is_data || request.method() != Method::GET) && !auth.allows_origin(request.method(), request.headers()) {
        return Some(refusal(StatusCode::FORBIDDEN, "requests from other sites are not allowed"));
    }
    if session.is_some() {
        if let Some(caller) = request.extensions().get::<Caller>() {
            caller.prove();
        }
    }
    if is_data && session.is_none() {
        return Some(refusal(StatusCode::UNAUTHORIZED, "open the link that `hermes-host webchat link` prints"));
    }
    None
}

/// Returns the response to a page request without a session.
pub(crate) fn sign_in() -> Response {
    (StatusCode::UNAUTHORIZED, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page/sign-in.html"))
        .into_response()
}
