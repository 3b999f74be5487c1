//! The names under which the page is served, its token, and its sessions.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderValue, Method, header};
use ring::hmac;

use crate::ids::random_word;

/// The lifetime of an unused page session, in seconds.
const SESSION_LIFETIME_S: i64 = 7 * 24 * 60 * 60;
/// The age at which a used session gets a new cookie, in seconds.
const RENEWAL_AGE_S: i64 = 24 * 60 * 60;

/// The names of the page and its token.
pub(crate) struct HttpAuth {
    hosts: Vec<String>,
    origins: Vec<String>,
    token: String,
    /// The signing key of the cookies.
    key: hmac::Key,
    pub(crate) cookie: String,
}

/// A valid page session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSession {
    /// True if the cookie is old enough to be replaced.
    pub(crate) is_old: bool,
}

impl HttpAuth {
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
        let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        Self { hosts, origins, token, key, cookie: format!("hermes_{instance}_{port}") }
    }

    /// Returns whether `given` is the token.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        same_in_constant_time(given.as_bytes(), self.token.as_bytes())
    }

    pub(crate) fn allows_host(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else { return false };
        host.to_str().is_ok_and(|host| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    }

    pub(crate) fn allows_origin(&self, method: &Method, headers: &HeaderMap) -> bool {
        if let Some(site) = headers.get("sec-fetch-site") {
            if !matches!(site.as_bytes(), b"same-origin" | b"none") {
                return false;
            }
        }
        match headers.get(header::ORIGIN) {
            Some(origin) => {
                origin.to_str().is_ok_and(|origin| self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)))
            }
            None => matches!(*method, Method::GET | Method::HEAD),
        }
    }

    /// Returns the session of the request's cookie, if it is valid at `now_ms`.
    pub(crate) fn session(&self, headers: &HeaderMap, now_ms: i64) -> Option<PageSession> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| self.read(value, now_ms).filter(|_| name == self.cookie))
    }

    fn read(&self, value: &str, now_ms: i64) -> Option<PageSession> {
        let (session, mac) = value.rsplit_once('.')?;
        let (_, expires) = session.split_once('.')?;
        hmac::verify(&self.key, self.signed(session).as_bytes(), &from_hex(mac)?).ok()?;
        let left = expires.parse::<i64>().ok()?.checked_sub(now_ms.div_euclid(1_000))?;
        // A clock that was set back does not extend a session beyond its maximum.
        let is_valid = (1..=SESSION_LIFETIME_S).contains(&left);
        is_valid.then_some(PageSession { is_old: left < SESSION_LIFETIME_S - RENEWAL_AGE_S })
    }

    /// Returns the text that a cookie signs. The text differs between instances and ports.
    fn signed(&self, session: &str) -> String {
        format!("page session of {} {session}", self.cookie)
    }

    /// Opens a session and returns its cookie, with `now_ms` in milliseconds since the Unix epoch.
    pub(crate) fn set_cookie(&self, now_ms: i64) -> Option<HeaderValue> {
        let expires = now_ms.div_euclid(1_000) + SESSION_LIFETIME_S;
        let session = format!("{}.{expires}", random_word());
        let mac = hmac::sign(&self.key, self.signed(&session).as_bytes());
        let mac: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let name = &self.cookie;
        let text = format!("{name}={session}.{mac}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_LIFETIME_S}");
        HeaderValue::from_str(&text).ok()
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() % 2 != 0 {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn same_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let mut difference = u8::from(left.len() != right.len());
    for (n, byte) in right.iter().enumerate() {
        difference |= byte ^ left.get(n).copied().unwrap_or(!byte);
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(port: u16, token: &str, instance: &str) -> HttpAuth {
        HttpAuth::new(([127, 0, 0, 1], port).into(), &[], token.to_owned(), instance)
    }

    /// Returns the headers of a browser with the cookie.
    fn with(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, format!("other=1; {pair}").parse().unwrap())])
    }

    #[test]
    fn a_session_is_valid_for_its_page_its_token_and_its_time_only() {
        const TOKEN: &str = "0123456789abcdef";
        let (now, day) = (1_000_000_000_000, 86_400_000);
        let page = auth(8643, TOKEN, "webchat");
        let cookie = page.set_cookie(now).unwrap();
        let text = cookie.to_str().unwrap();
        assert!(!text.contains(TOKEN) && text.contains("Path=/; HttpOnly; SameSite=Strict; Max-Age=604800"), "{text}");
        assert_ne!(page.set_cookie(now), page.set_cookie(now), "each session has its own cookie");
        let cookies = with(&cookie);
        assert_eq!(page.session(&cookies, now), Some(PageSession { is_old: false }));
        assert_eq!(page.session(&cookies, now + 2 * day), Some(PageSession { is_old: true }));
        for out_of_time in [now + 7 * day, now - day] {
            assert_eq!(page.session(&cookies, out_of_time), None);
        }
        assert_eq!(auth(8643, "another-token-16", "webchat").session(&cookies, now), None);
        let elsewhere = text.replace("hermes_webchat_8643", "hermes_webchat_8645").parse().unwrap();
        assert_eq!(auth(8645, TOKEN, "webchat").session(&with(&elsewhere), now), None);
        let pair = text.split(';').next().unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        let longer = value.replace(&format!(".{}.", now / 1000 + 604_800), ".99999999999.");
        for wrong in [TOKEN, "", ".", "..", "a.b.c", &value[..value.len() - 1], &longer, &format!("{value}0")] {
            let cookies = HeaderMap::from_iter([(header::COOKIE, format!("{name}={wrong}").parse().unwrap())]);
            assert_eq!(page.session(&cookies, now), None, "{wrong}");
        }
    }

    #[test]
    fn only_the_token_opens() {
        let auth = HttpAuth::new(([127, 0, 0, 1], 8643).into(), &[], "0123456789abcdef".to_owned(), "webchat");
        assert!(auth.is_token("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!auth.is_token(wrong), "{wrong}");
        }
    }
}
