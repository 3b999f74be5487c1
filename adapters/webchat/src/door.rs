//! Who may come in.
//!
//! Three things are looked at before anything else happens:
//!
//! * **Host**: only the names this page is served under. A name that was rebound to
//!   loopback by someone's DNS gets nothing.
//! * **Origin**: whatever a browser sends along from another site gets nothing; what
//!   changes something must name its origin.
//! * **Token**: from the printed link, then in a cookie that scripts cannot read and
//!   other sites cannot send. Compared in constant time.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::refusal;
use crate::connection::Connection;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Names and the token.
pub(crate) struct Door {
    hosts: Vec<String>,
    origins: Vec<String>,
    token: String,
    pub(crate) cookie: String,
}

impl Door {
    pub(crate) fn new(at: SocketAddr, allowed_hosts: &[String], token: String, instance: &str) -> Self {
        let port = at.port();
        let mut hosts = vec![at.to_string(), format!("localhost:{port}")];
        if at.ip().is_loopback() || at.ip().is_unspecified() {
            hosts.extend([format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
        }
        let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        for host in allowed_hosts {
            let host = host.to_ascii_lowercase();
            origins.extend([format!("http://{host}"), format!("https://{host}")]);
            hosts.push(host);
        }
        let instance: String = instance.chars().filter(char::is_ascii_alphanumeric).collect();
        Self { hosts, origins, token, cookie: format!("hermes_{instance}_{port}") }
    }

    /// Whether `given` is the token.
    pub(crate) fn opens(&self, given: &str) -> bool {
        same_in_constant_time(given.as_bytes(), self.token.as_bytes())
    }

    fn knows_host(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else { return false };
        host.to_str().is_ok_and(|host| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    }

    fn knows_origin(&self, method: &Method, headers: &HeaderMap) -> bool {
        if let Some(site) = headers.get("sec-fetch-site")
            && !matches!(site.as_bytes(), b"same-origin" | b"none")
        {
            return false;
        }
        match headers.get(header::ORIGIN) {
            Some(origin) => {
                origin.to_str().is_ok_and(|origin| self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)))
            }
            None => matches!(*method, Method::GET | Method::HEAD),
        }
    }

    /// Whether the cookie holds the token.
    pub(crate) fn has_key(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.opens(value))
    }

    /// The cookie that keeps the token.
    pub(crate) fn set_cookie(&self) -> Option<HeaderValue> {
        let text = format!("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000", self.cookie, self.token);
        HeaderValue::from_str(&text).ok()
    }
}

fn same_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let mut difference = u8::from(left.len() != right.len());
    for (n, byte) in right.iter().enumerate() {
        difference |= byte ^ left.get(n).copied().unwrap_or(!byte);
    }
    std::hint::black_box(difference) == 0
}

/// Checks Host, Origin and, for everything but the page's own files, the token; sets
/// the headers that every answer has.
pub(crate) async fn guard(State(link): State<Arc<Connection>>, request: Request, next: Next) -> Response {
    let mut response = match refused(&link, &request) {
        Some(refused) => refused,
        None => next.run(request).await,
    };
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

fn refused(link: &Connection, request: &Request) -> Option<Response> {
    let Some(door) = link.door() else {
        return Some(refusal(StatusCode::SERVICE_UNAVAILABLE, "the page is being closed"));
    };
    if !door.knows_host(request.headers()) {
        return Some(refusal(StatusCode::FORBIDDEN, "this page is not served under that name; set `allowed_hosts`"));
    }
    let path = request.uri().path();
    let is_data = path.starts_with("/api/") || path.starts_with("/files/");
    // The page itself may be reached from anywhere by a link: a person clicks on it.
    if (is_data || request.method() != Method::GET) && !door.knows_origin(request.method(), request.headers()) {
        return Some(refusal(StatusCode::FORBIDDEN, "another site may not talk to this page"));
    }
    if is_data && !door.has_key(request.headers()) {
        return Some(refusal(StatusCode::UNAUTHORIZED, "open the link that hermes-host printed at start-up"));
    }
    None
}

/// The answer to a page request without a key.
pub(crate) fn sign_in() -> Response {
    (StatusCode::UNAUTHORIZED, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page/sign-in.html"))
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_opens() {
        let door = Door::new(([127, 0, 0, 1], 8643).into(), &[], "0123456789abcdef".to_owned(), "webchat");
        assert!(door.opens("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!door.opens(wrong), "{wrong}");
        }
    }
}
