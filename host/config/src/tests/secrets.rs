//! Secrets at any depth of an adapter's table.

use super::*;

fn schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "pin": { "type": "integer", "writeOnly": true },
            "webhook": { "anyOf": [{ "$ref": "#/$defs/Webhook" }, { "type": "null" }] },
            "routes": { "type": "array", "items": { "$ref": "#/$defs/Webhook" } },
            "peers": { "type": "object", "additionalProperties": { "type": "string", "format": "password" } },
            "login": { "type": "object", "properties": { "name": { "type": "string" }, "word": { "type": "string" } } },
            "keys": { "type": "array", "items": { "type": "string" } },
        },
        "$defs": { "Webhook": { "type": "object", "properties": {
            "path": { "type": "string" },
            "secret": { "type": "string", "writeOnly": true },
        } } },
    })
}

const FILE: &str = r#"
[adapter.chat]
pin = 12345678
webhook = { path = "/open", secret = "quoted\\secret-1" }
routes = [{ path = "/a", secret = "nested-secret-2" }, { path = "/b", secret = { env = "ROUTE" } }]
peers = { one = "nested-secret-3" }
login = { name = "open", word = "nested-secret-4" }
keys = ["nested-secret-5"]
"#;

fn world() -> (World, BTreeMap<String, Manifest>, BTreeMap<String, Json>) {
    let mut world = World::new();
    world.env("ROUTE", "nested-secret-6").file(FILE);
    let manifests = manifests::one(json!({ "id": "chat", "secrets": ["login.word", "keys"] }));
    (world, manifests, BTreeMap::from([("chat".to_owned(), schema())]))
}

#[test]
fn a_secret_is_refused_in_a_readable_file_at_any_depth() {
    let (world, manifests, schemas) = world();
    world.mode(0o644);
    let mut config = world.load().unwrap();
    let mut problems = Problems::default();
    config.check_literals(&manifests, &schemas, &mut problems);
    let said = world.relative(problems);
    let keys: Vec<&str> = said.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    let of = |key: &str| format!("adapter.chat.{key}");
    let wanted = ["keys.0", "login.word", "peers.one", "pin", "routes.0.secret", "webhook.secret"].map(of);
    assert_eq!(keys, wanted, "{said}");
    assert!(said.contains("plugins.toml:5:26: adapter.chat.routes.0.secret: a secret is written in"), "{said}");
    assert!(!said.contains("nested"), "{said}");
}

#[test]
fn a_secret_at_any_depth_is_masked_where_its_owner_alone_reads_the_file() {
    let (world, manifests, schemas) = world();
    world.mode(0o600);
    let mut config = world.load().unwrap();
    let mut problems = Problems::default();
    config.check_literals(&manifests, &schemas, &mut problems);
    config.check_literals(&manifests, &schemas, &mut problems);
    assert!(problems.0.is_empty(), "{problems}");
    let plans = config.plans(&manifests, &schemas).unwrap();
    let mut secrets = plans[0].secrets.clone();
    secrets.sort();
    let nested = (2..=6).map(|n| format!("nested-secret-{n}"));
    let wanted: Vec<String> =
        ["12345678".to_owned()].into_iter().chain(nested).chain(["quoted\\secret-1".to_owned()]).collect();
    assert_eq!(secrets, wanted);
    assert_eq!(config.secrets().len(), 7);

    let shown = config.show(&manifests);
    let value =
        |key: &str| shown.iter().find(|shown| shown.key == format!("adapter.chat.{key}")).unwrap().value.clone();
    assert_eq!(value("pin"), "[hidden]");
    assert_eq!(value("webhook"), r#"{ path = "/open", secret = "[hidden]" }"#);
    assert_eq!(value("routes"), r#"[{ path = "/a", secret = "[hidden]" }, { path = "/b", secret = "[hidden]" }]"#);
    assert_eq!(value("peers"), r#"{ one = "[hidden]" }"#);
    assert_eq!(value("login"), r#"{ name = "open", word = "[hidden]" }"#);
    assert_eq!(value("keys"), "[hidden]");
}

#[test]
fn what_only_looks_like_a_secret_is_not_shown_of_an_adapter_that_nobody_knows() {
    let mut world = World::new();
    world.file("[adapter.chat]\nwebhook = { path = \"/open\", hmac_secret = \"short\" }\n");
    let shown = world.load().unwrap().show(&BTreeMap::new());
    let webhook = shown.iter().find(|shown| shown.key == "adapter.chat.webhook").unwrap();
    assert_eq!(webhook.value, r#"{ hmac_secret = "[hidden]", path = "/open" }"#);
}
