//! Proxies for outgoing connections.
//!
//! [`Rules`] decide for each address whether it is connected directly or through
//! a proxy. This machine is always connected directly. Credentials of a proxy never
//! appear in `Debug`, in errors or in [`shown`].

mod bypass;
mod naming;

pub use hermes_protocol::ProxySettings;
use reqwest::Url;

use crate::address::is_loopback_host;
use crate::error::ClientError;

use bypass::Bypass;
pub(crate) use naming::{ProxyNameLayer, note};

/// Schemes that a proxy may have.
const SCHEMES: &[&str] = &["http", "https", "socks5", "socks5h"];

/// The default port of a SOCKS proxy.
const SOCKS_PORT: u16 = 1080;

/// Returns the settings that the proxy variables describe.
///
/// `get` reads one variable. The lower-case name wins over the upper-case one, and
/// an empty value counts as unset. `HTTP_PROXY` is ignored where `REQUEST_METHOD`
/// is set: a CGI server fills it from a request header.
pub fn of_variables(get: impl Fn(&str) -> Option<String>) -> ProxySettings {
    let one = |name: &str| get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let either = |name: &str| one(&name.to_ascii_lowercase()).or_else(|| one(name));
    let all = either("ALL_PROXY");
    let http = one("http_proxy").or_else(|| one("HTTP_PROXY").filter(|_| one("REQUEST_METHOD").is_none()));
    let mut settings = ProxySettings::default();
    settings.http = http.or_else(|| all.clone());
    settings.https = either("HTTPS_PROXY").or(all);
    settings.no_proxy = either("NO_PROXY").map(|text| list(&text)).unwrap_or_default();
    settings
}

/// Splits a list in the format of `NO_PROXY`, at commas or blanks.
pub fn list(text: &str) -> Vec<String> {
    let entries = text.split(|c: char| c == ',' || c.is_whitespace());
    entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// Parses the address of a proxy: `http`, `https`, `socks5` or `socks5h`. Without a scheme it is `http`.
///
/// # Errors
///
/// One sentence without the value, which may contain a password.
pub fn read_proxy(text: &str) -> Result<Url, ClientError> {
    let wrong = |why: &str| Err(ClientError::Proxy(why.to_owned()));
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let Ok(mut url) = Url::parse(&text) else {
        return wrong("the proxy is not a valid URL; use a URL like \"http://127.0.0.1:3128\"");
    };
    if !SCHEMES.contains(&url.scheme()) {
        return wrong("the proxy must begin with http://, https://, socks5:// or socks5h://");
    }
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '%') || url.port() == Some(0) {
        return wrong("the proxy has no host or an invalid port");
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return wrong("the proxy has text after its port; use scheme://host:port only");
    }
    if url.scheme().starts_with("socks") && url.port().is_none() && url.set_port(Some(SOCKS_PORT)).is_err() {
        return wrong("the proxy has no port");
    }
    Ok(url)
}

/// Returns the password of a proxy, as it is written and decoded; without one, its user name, which some services
/// use as a key. No log may show these.
pub fn credentials(text: &str) -> Vec<String> {
    let Ok(url) = read_proxy(text) else { return Vec::new() };
    let Some(password) = url.password().filter(|password| !password.is_empty()) else {
        return Some(url.username()).filter(|user| !user.is_empty()).map(str::to_owned).into_iter().collect();
    };
    let before = text.rsplit_once('@').map_or("", |(before, _)| before);
    let userinfo = before.split_once("://").map_or(before, |(_, userinfo)| userinfo);
    let written = userinfo.split_once(':').map_or("", |(_, password)| password);
    let mut all = vec![decoded(password), password.to_owned()];
    all.extend(Some(written.to_owned()).filter(|written| !written.is_empty() && !all.contains(written)));
    all.dedup();
    all
}

/// Decodes percent encoding.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the address of a proxy for display: without credentials, always with its port.
pub fn shown(text: &str) -> String {
    match read_proxy(text) {
        Ok(url) => format!("{}://{}", url.scheme(), authority(&url)),
        Err(_) => "an invalid address".to_owned(),
    }
}

pub(crate) fn authority(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or(SOCKS_PORT);
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

/// The proxy for each address, decided by [`ProxySettings`].
#[derive(Clone, Default)]
pub struct Rules {
    http: Option<Url>,
    https: Option<Url>,
    bypass: Vec<Bypass>,
}

impl Rules {
    /// Parses the settings.
    ///
    /// # Errors
    ///
    /// As [`read_proxy`].
    pub fn new(settings: &ProxySettings) -> Result<Self, ClientError> {
        let read =
            |text: &Option<String>| text.as_deref().filter(|text| !text.trim().is_empty()).map(read_proxy).transpose();
        Ok(Self {
            http: read(&settings.http)?,
            https: read(&settings.https)?,
            bypass: settings.no_proxy.iter().map(|entry| Bypass::new(entry)).collect(),
        })
    }

    /// Returns whether every address is connected directly.
    pub fn is_direct(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// Returns whether a proxy is reached over TLS itself.
    pub(crate) fn needs_certificates(&self) -> bool {
        self.proxies().any(|proxy| proxy.scheme() == "https")
    }

    /// Returns the hosts of the proxies.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.proxies().filter_map(Url::host_str).map(str::to_owned).collect()
    }

    fn proxies(&self) -> impl Iterator<Item = &Url> {
        self.http.iter().chain(&self.https)
    }

    /// Returns the proxy through which `url` is connected; `None`: directly.
    pub fn proxy_for(&self, url: &Url) -> Option<&Url> {
        let proxy = match url.scheme() {
            "http" | "ws" => self.http.as_ref(),
            _ => self.https.as_ref(),
        }?;
        let host = url.host_str()?;
        if is_this_machine(host) {
            return None;
        }
        let port = url.port_or_known_default();
        (!self.bypass.iter().any(|bypass| bypass.covers(host, port))).then_some(proxy)
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |proxy: &Option<Url>| proxy.as_ref().map(authority);
        f.debug_struct("Rules")
            .field("http", &shown(&self.http))
            .field("https", &shown(&self.https))
            .finish_non_exhaustive()
    }
}

/// Returns whether the host of `url` is on a list of names, domains, addresses and networks, written as in `NO_PROXY`.
pub(crate) fn is_listed(list: &[String], url: &Url) -> bool {
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
    list.iter().any(|entry| Bypass::new(entry).covers(host, port))
}

/// Returns whether `host` is this machine, by its names and its unspecified addresses.
fn is_this_machine(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    is_loopback_host(&name) || name.ends_with(".localhost") || matches!(name.as_str(), "0.0.0.0" | "[::]")
}

/// Describes the settings for an operator, without credentials: `http://127.0.0.1:3128, except .example.org`.
/// `None`: everything is connected directly.
pub fn describe(settings: &ProxySettings) -> Option<String> {
    let (http, https) = (settings.http.as_deref().map(shown), settings.https.as_deref().map(shown));
    let through = match (http, https) {
        (None, None) => return None,
        (Some(http), Some(https)) if http == https => https,
        (Some(http), Some(https)) => format!("{https} for https, {http} for http"),
        (None, Some(https)) => format!("{https} for https only"),
        (Some(http), None) => format!("{http} for http only"),
    };
    if settings.no_proxy.is_empty() {
        return Some(through);
    }
    Some(format!("{through}, except {}", settings.no_proxy.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(proxy: &str, no_proxy: &str) -> ProxySettings {
        let mut settings = ProxySettings::default();
        settings.http = Some(proxy.to_owned());
        settings.https = Some(proxy.to_owned());
        settings.no_proxy = list(no_proxy);
        settings
    }

    fn goes_through(no_proxy: &str, url: &str) -> bool {
        let rules = Rules::new(&settings("http://proxy.example:3128", no_proxy)).unwrap();
        rules.proxy_for(&Url::parse(url).unwrap()).is_some()
    }

    #[test]
    fn this_machine_is_always_connected_directly() {
        for url in [
            "http://localhost:8080/v1",
            "http://LOCALHOST./",
            "https://app.localhost/",
            "http://127.0.0.1/",
            "http://127.8.9.1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0:80/",
            "http://[::]/",
        ] {
            assert!(!goes_through("", url), "{url}");
        }
        assert!(goes_through("", "https://api.example/"));
        assert!(goes_through("", "http://localhost.example/"));
    }

    #[test]
    fn exceptions_are_names_domains_addresses_networks_and_ports() {
        for (no_proxy, url, through) in [
            ("*", "https://api.example/", false),
            ("api.example", "https://api.example/", false),
            ("api.example", "https://v2.api.example/", false),
            ("api.example", "https://notapi.example/", true),
            (".example", "https://api.example/", false),
            ("*.example", "https://api.example/", false),
            ("API.Example.", "https://api.example/", false),
            ("other.example, api.example", "https://api.example/", false),
            ("other.example api.example", "https://api.example/", false),
            ("api.example:443", "https://api.example/", false),
            ("api.example:8443", "https://api.example/", true),
            ("10.0.0.0/8", "http://10.1.2.3/", false),
            ("10.0.0.0/8", "http://11.1.2.3/", true),
            ("10.1.2.3", "http://10.1.2.3:99/", false),
            ("10.1.2.3:99", "http://10.1.2.3:99/", false),
            ("10.1.2.3:98", "http://10.1.2.3:99/", true),
            ("10.1.2.0/33", "http://10.1.2.3/", true),
            ("0.0.0.0/0", "http://10.1.2.3/", false),
            ("fd00::/8", "http://[fd12::1]/", false),
            ("fd00::/8", "http://[fe80::1]/", true),
            ("[fd12::1]", "http://[fd12::1]/", false),
            ("fd12::1", "http://[fd12::1]:8/", false),
            ("[fd12::1]:8", "http://[fd12::1]:8/", false),
            ("", "https://api.example/", true),
        ] {
            assert_eq!(goes_through(no_proxy, url), through, "{no_proxy:?} {url}");
        }
    }

    #[test]
    fn variables_are_read_in_both_cases_and_a_request_header_cannot_set_one() {
        let of = |pairs: &[(&str, &str)]| {
            let variables: BTreeMap<String, String> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            of_variables(|name| variables.get(name).cloned())
        };
        let found = of(&[("HTTPS_PROXY", "http://a:1"), ("https_proxy", "http://b:1"), ("HTTP_PROXY", "http://c:1")]);
        assert_eq!((found.https.as_deref(), found.http.as_deref()), (Some("http://b:1"), Some("http://c:1")));
        let found = of(&[("ALL_PROXY", "socks5://a"), ("http_proxy", "http://b:1"), ("no_proxy", "x, y z")]);
        assert_eq!((found.https.as_deref(), found.http.as_deref()), (Some("socks5://a"), Some("http://b:1")));
        assert_eq!(found.no_proxy, ["x", "y", "z"]);
        let found = of(&[("HTTP_PROXY", "http://evil:1"), ("REQUEST_METHOD", "GET")]);
        assert_eq!(found, ProxySettings::default());
        let found = of(&[("http_proxy", "http://good:1"), ("REQUEST_METHOD", "GET")]);
        assert_eq!(found.http.as_deref(), Some("http://good:1"));
        assert_eq!(of(&[("HTTPS_PROXY", " "), ("https_proxy", "")]), ProxySettings::default());
    }

    #[test]
    fn a_proxy_is_an_address_of_four_schemes_and_nothing_after_it() {
        for (text, is_shown) in [
            ("127.0.0.1:3128", "http://127.0.0.1:3128"),
            ("proxy.example", "http://proxy.example:80"),
            ("https://proxy.example/", "https://proxy.example:443"),
            ("SOCKS5://proxy.example", "socks5://proxy.example:1080"),
            (" socks5h://u:p%40ss@[::1]:9050 ", "socks5h://[::1]:9050"),
        ] {
            assert_eq!(shown(text), is_shown);
        }
        for wrong in [
            "ftp://a:1",
            "socks4://a:1",
            "http://",
            "http://a:99999",
            "http://a:0",
            "http://a:1/path",
            "http://a:1?x",
            "socks5://",
            "a b",
            "://",
        ] {
            let error = read_proxy(wrong).unwrap_err().to_string();
            assert!(error.starts_with("the proxy "), "{wrong}: {error}");
        }
    }

    #[test]
    fn credentials_show_nowhere() {
        let settings = settings("http://ada:hunt%65r2@proxy.example:3128", "");
        let rules = Rules::new(&settings).unwrap();
        let described = describe(&settings).unwrap();
        for text in [format!("{settings:?}"), format!("{rules:?}"), described] {
            assert!(text.contains("proxy.example"), "{text}");
            assert!(!text.contains("ada") && !text.contains("hunt"), "{text}");
        }
        assert_eq!(credentials(settings.http.as_deref().unwrap()), ["hunter2", "hunt%65r2"]);
        assert_eq!(credentials("http://key-as-user@a:1"), ["key-as-user"]);
        assert!(credentials("http://a:1").is_empty());
        let error = read_proxy("ftp://ada:hunter2@a").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
