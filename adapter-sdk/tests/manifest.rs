//! Tests of the manifest as a constant.

use hermes_adapter_sdk::protocol::{self, DeliveryClass, Dialect, StreamKind, TextUnit};
use hermes_adapter_sdk::serde_json::{self, Value, json};
use hermes_adapter_sdk::testing::MockHost;

use crate::adapters::Puppet;

fn bytes() -> String {
    MockHost::start::<Puppet>(json!({})).expect("it starts").manifest().to_owned()
}

#[test]
fn it_parses_as_what_the_host_reads() {
    let manifest: protocol::Manifest = serde_json::from_str(&bytes()).expect("it is a manifest");
    assert_eq!((manifest.schema, manifest.abi), (1, 1));
    assert_eq!(manifest.id, "puppet");
    assert_eq!(manifest.label, "Puppet \"P\"\n");
    assert_eq!(manifest.version, "0.3.1");
    assert_eq!(manifest.sdk, protocol::SDK_VERSION);
    assert_eq!(manifest.transport, "long-poll");
    assert_eq!(manifest.platform_hint, "Speaks softly.");
    assert_eq!(manifest.uses, ["turns.stop", "sessions.list"]);
    assert_eq!(manifest.replay, "offset");
    assert_eq!(manifest.env[0].name, "PUPPET_TOKEN");
    assert!(manifest.env[0].enables);
    assert!(manifest.target.contains('-'), "{}", manifest.target);
    let text = manifest.capabilities.text;
    assert_eq!((text.limit, text.unit), (4096, TextUnit::Utf16));
    assert_eq!(text.dialect, Dialect::Unknown("my_own".to_owned()));
    assert_eq!(manifest.capabilities.delivery, DeliveryClass::Reconcilable);
    assert_eq!(manifest.capabilities.stream, StreamKind::None);
    assert!(manifest.capabilities.media.inbound);
    assert_eq!(manifest.capabilities.media.in_bytes_max, 20_000_000);
    assert_eq!(manifest.capabilities.liveness.interval_s, 60);
    assert!(manifest.extra.is_empty() && manifest.capabilities.extra.is_empty());
}

#[test]
fn declared_capabilities_are_those_of_the_listed_traits() {
    let manifest: Value = serde_json::from_str(&bytes()).expect("it is JSON");
    let capabilities = &manifest["capabilities"];
    for listed in ["edit", "fetch", "lookup", "resolve_target"] {
        assert_eq!(capabilities[listed], json!(true), "{listed}");
    }
    for other in ["typing", "delete", "reactions", "render", "turn_event"] {
        assert_eq!(capabilities[other], Value::Null, "{other}");
    }
}
