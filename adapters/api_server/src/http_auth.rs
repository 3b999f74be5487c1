//! Access control for requests.
//!
//! Three checks, in this order: the request's `Host` is a name of this server, its `Origin`
//! is a web page that may call, and it carries the key. The first two reject web pages in a
//! browser on this machine, even if DNS rebinding gives them this address.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use hermes_adapter_net::address::is_loopback_host;
use hermes_adapter_net::serve::Caller;

use crate::api_error::ApiError;
use crate::server::Server;

/// Passes a valid request on, or responds with an error.
pub(crate) async fn check_access(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response<Body> {
    let origin = request.headers().get(ORIGIN).cloned();
    let mut response = match check_request(&server, &request) {
        Ok(Admission::Allowed) => next.run(request).await,
        Ok(Admission::Preflight) => preflight(),
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(origin) = origin.filter(|origin| is_allowed(&server, origin)) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(VARY, HeaderValue::from_static("origin"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-hermes-session-id, retry-after"));
    }
    response
}

enum Admission {
    Allowed,
    Preflight,
}

fn check_request(server: &Server, request: &Request) -> Result<Admission, ApiError> {
    let headers = request.headers();
    // A request in absolute form contains its host in the target.
    let host = match headers.get(HOST) {
        Some(host) => host.to_str().ok(),
        None => request.uri().authority().map(|authority| authority.as_str()),
    };
    let on_loopback = server.on_loopback.get().copied().unwrap_or(true);
    if !host.is_some_and(|host| is_own_host(host, &server.config.hosts, on_loopback)) {
        let message = "this host name is not allowed; the operator can add it to hosts";
        return Err(ApiError::new(403, "host_not_allowed", message));
    }
    if let Some(origin) = headers.get(ORIGIN) {
        if !is_allowed(server, origin) {
            let message = "web pages of this origin are not allowed; the operator can add it to cors_origins";
            return Err(ApiError::new(403, "origin_not_allowed", message));
        }
        if request.method() == Method::OPTIONS && headers.contains_key("access-control-request-method") {
            return Ok(Admission::Preflight);
        }
    }
    if matches!(request.uri().path(), "/health" | "/v1/health") {
        return Ok(Admission::Allowed);
    }
    match server.key.get() {
        Some(key) if key.is_in(headers) => {
            if let Some(caller) = request.extensions().get::<Caller>() {
                caller.prove();
            }
            server.host.proved();
            Ok(Admission::Allowed)
        }
        _ => Err(ApiError::new(401, "invalid_api_key", "the key is missing or wrong; send Authorization: Bearer KEY")),
    }
}

/// Returns whether `host` is a name of this server: this machine, or a configured name. If other machines
/// can reach the server and no name is configured, any name is accepted.
fn is_own_host(host: &str, hosts: &[String], on_loopback: bool) -> bool {
    let name = without_port(host);
    if is_loopback_host(name) || hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        return true;
    }
    !on_loopback && hosts.is_empty() && !name.is_empty()
}

fn without_port(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_allowed(server: &Server, origin: &HeaderValue) -> bool {
    let origins = &server.config.cors_origins;
    origins.iter().any(|ours| ours == "*" || ours.trim_end_matches('/').as_bytes() == origin.as_bytes())
}

fn preflight() -> Response<Body> {
    let answers: [(HeaderName, &str); 3] = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, idempotency-key, x-hermes-session-id"),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in answers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_page_does_not_reach_a_server_of_this_machine() {
        for ours in ["127.0.0.1:8642", "localhost:8642", "[::1]:8642", "localhost", "LOCALHOST:1"] {
            assert!(is_own_host(ours, &[], true), "{ours}");
        }
        for other in
            ["evil.example:8642", "127.0.0.1.evil.example", "localhost.evil.example", "", ":8642", "[::2]:8642"]
        {
            assert!(!is_own_host(other, &[], true), "{other}");
        }
        let hosts = ["api.example".to_owned()];
        assert!(is_own_host("API.example:443", &hosts, true));
        assert!(is_own_host("any.example", &[], false));
        assert!(!is_own_host("any.example", &hosts, false));
    }
}
