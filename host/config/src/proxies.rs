//! The proxies of the host and of each instance: `[host] proxy`, `adapter.<instance>.proxy` and the proxy variables.

use hermes_adapter_net::proxy::{self, ProxySettings, of_variables, read_proxy};

use super::build::Get;
use super::model::Config;
use super::read::Reader;

/// Variables that name a proxy.
const VARIABLES: &[&str] = &["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// The proxies of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostProxy {
    /// The settings.
    pub settings: ProxySettings,
    /// The variables or the key that set them.
    pub from: String,
}

/// Returns the proxies of the host: those of `[host] proxy`, otherwise those of the environment.
/// A variable that is used and is not a proxy is a problem.
pub(super) fn of_host(reader: &mut Reader<'_>, get: &Get<'_>) -> HostProxy {
    let mut settings = of_variables(|name| reader.env.get(name).map(|(value, _)| value.to_owned()));
    settings.no_proxy.extend(get.list("host.no_proxy"));
    if let Some(key) = get.text("host.proxy") {
        override_with(&mut settings, &key);
        return HostProxy { settings, from: "[host] proxy".to_owned() };
    }
    let mut from = Vec::new();
    for name in VARIABLES {
        let Some((value, source)) = reader.env.get(name) else { continue };
        let value = value.trim();
        if ![&settings.http, &settings.https].iter().any(|used| used.as_deref() == Some(value)) {
            continue;
        }
        if let Err(error) = read_proxy(value) {
            reader.problems.push(source, "host.proxy", error.to_string());
        }
        from.push(*name);
    }
    HostProxy { settings, from: from.join(", ") }
}

/// Replaces both proxies. An empty text means that every address is connected directly.
fn override_with(settings: &mut ProxySettings, proxy: &str) {
    let proxy = Some(proxy.trim()).filter(|proxy| !proxy.is_empty()).map(str::to_owned);
    settings.http.clone_from(&proxy);
    settings.https = proxy;
}

/// Checks the value of a key that names a proxy; an empty text means none.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Ok(());
    }
    read_proxy(text).map(drop).map_err(|error| error.to_string())
}

/// Returns the proxy for people, without credentials.
pub(super) fn shown(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { proxy::shown(text) }
}

/// Returns every credential in the proxies.
pub(super) fn credentials(settings: &ProxySettings) -> impl Iterator<Item = String> {
    settings.http.iter().chain(&settings.https).flat_map(|text| proxy::credentials(text))
}

impl Config {
    /// Returns the proxies of an instance.
    pub fn proxy_for(&self, instance: &str) -> ProxySettings {
        let mut settings = self.host.proxy.settings.clone();
        if let Some(own) = self.adapters.get(instance).and_then(|adapter| adapter.proxy.as_ref()) {
            override_with(&mut settings, own.expose());
        }
        settings
    }

    /// Returns one line about the proxies of the host, without credentials; `None` if there are none.
    pub fn proxy_line(&self) -> Option<String> {
        let proxy = &self.host.proxy;
        let line = proxy::describe(&proxy.settings)?;
        Some(format!("{line} (from {})", proxy.from))
    }

    /// Returns the proxy of an instance that has its own, without credentials.
    pub fn own_proxy_line(&self, instance: &str) -> Option<String> {
        self.adapters.get(instance)?.proxy.as_ref()?;
        Some(proxy::describe(&self.proxy_for(instance)).unwrap_or_else(|| "none; connects directly".to_owned()))
    }

    /// Returns every credential in the proxies of the host and its instances.
    pub(super) fn proxy_credentials(&self) -> Vec<String> {
        let own = self.adapters.keys().map(|instance| self.proxy_for(instance));
        own.chain([self.host.proxy.settings.clone()])
            .flat_map(|settings| credentials(&settings).collect::<Vec<_>>())
            .collect()
    }
}
