//! The proxy variables in the environment of an adapter's process.

use hermes_adapter_net::proxy::ProxySettings;

/// The environment name of each proxy variable that the process of an adapter gets.
const CHILD_VARIABLES: [&str; 6] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];

/// Returns the variables that pass the proxies to the process of an adapter.
pub fn child_variables(settings: &ProxySettings) -> Vec<(&'static str, String)> {
    let [http, http_lower, https, https_lower, no_proxy, no_proxy_lower] = CHILD_VARIABLES;
    let exceptions = ["localhost", "127.0.0.0/8", "::1"].iter().map(|host| (*host).to_owned());
    let exceptions = exceptions.chain(settings.no_proxy.iter().cloned()).collect::<Vec<_>>().join(",");
    let exceptions = (!settings.is_direct()).then_some(exceptions);
    let pairs = [
        ([http, http_lower], settings.http.clone()),
        ([https, https_lower], settings.https.clone()),
        ([no_proxy, no_proxy_lower], exceptions),
    ];
    let set = pairs.into_iter().filter_map(|(names, value)| Some((names, value?)));
    set.flat_map(|(names, value)| names.map(|name| (name, value.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_learns_its_proxy_and_that_this_machine_needs_none() {
        let mut settings = ProxySettings::default();
        assert!(child_variables(&settings).is_empty());
        settings.no_proxy = vec![".example".to_owned()];
        assert!(child_variables(&settings).is_empty(), "without a proxy there is nothing to except");
        settings.https = Some("socks5h://127.0.0.1:1080".to_owned());
        let set = child_variables(&settings);
        assert!(set.contains(&("https_proxy", "socks5h://127.0.0.1:1080".to_owned())), "{set:?}");
        assert!(set.contains(&("NO_PROXY", "localhost,127.0.0.0/8,::1,.example".to_owned())), "{set:?}");
        assert!(!set.iter().any(|(name, _)| name.eq_ignore_ascii_case("http_proxy")), "{set:?}");
    }
}
