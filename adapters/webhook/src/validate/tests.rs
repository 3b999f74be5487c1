use serde_json::json;

use serde_json::Value;

use super::*;

fn judged(section: Value) -> Result<BTreeMap<String, Route>, String> {
    check(&serde_json::from_value(section).unwrap())
}

fn refused(section: Value) -> String {
    judged(section).err().expect("it is refused")
}

const SECRET: &str = "0123456789abcdef";

#[test]
fn nothing_starts_without_a_secret() {
    for route in [json!({}), json!({ "secret": "" }), json!({ "secrets": ["", " "] })] {
        let said = refused(json!({ "routes": { "ci": route } }));
        assert!(said.starts_with("route `ci` has no secret") && said.contains("openssl rand"), "{said}");
    }
    assert!(refused(json!({})).starts_with("no routes are configured"));
    assert!(refused(json!({ "secret": SECRET })).starts_with("no routes are configured"));
    let open = refused(json!({ "routes": { "ci": { "secret": "INSECURE_NO_AUTH" } } }));
    assert!(open.contains("disables authentication"), "{open}");
    for half in ["whsec_not base64", "whsec_AAAAAAAA"] {
        let said = refused(json!({ "routes": { "ci": { "secret": half } } }));
        assert!(said.contains("not base64 of 16 bytes") && !said.contains(half), "{said}");
    }
    let short = refused(json!({ "secret": "1234567", "routes": { "ci": {} } }));
    assert!(short.contains("fewer than 8 characters") && !short.contains("1234567"), "{short}");
}

#[test]
fn a_route_takes_what_the_section_says_unless_it_says_it_itself() {
    let routes = judged(json!({
        "secret": SECRET, "secrets": ["the-one-before"], "rate_per_minute": 7,
        "routes": { "a": {}, "b": { "secret": "its-own-secret", "rate_per_minute": 9, "age_s_max": 60 } },
    }))
    .unwrap();
    assert_eq!(routes["a"].secrets, [SECRET, "the-one-before"]);
    assert_eq!((routes["a"].rate_per_minute, routes["a"].age_s_max), (7, 300));
    assert_eq!(routes["b"].secrets, ["its-own-secret"]);
    assert_eq!((routes["b"].rate_per_minute, routes["b"].age_s_max), (9, 60));
}

#[test]
fn a_target_is_the_operators_and_a_text_alone_needs_one() {
    let of = |route: Value| {
        let mut route = route;
        route["secret"] = SECRET.into();
        judged(json!({ "routes": { "ci": route } })).map(|mut routes| routes.remove("ci").unwrap().deliver)
    };
    assert_eq!(of(json!({})), Ok(Deliver::answer_to("local").ending()));
    assert_eq!(of(json!({ "deliver": "telegram:-100:17" })), Ok(Deliver::answer_to("telegram:-100:17").ending()));
    assert_eq!(of(json!({ "deliver": "slack:@ops", "deliver_only": true })), Ok(Deliver::text_to("slack:@ops")));
    assert!(of(json!({ "deliver_only": true })).unwrap_err().contains("set a target"));
    assert!(of(json!({ "deliver": "telegram:{chat}" })).unwrap_err().contains("a payload cannot choose"));
    assert!(of(json!({ "deliver": "github_comment" })).unwrap_err().contains("not supported"));
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_key() {
    let with = |key: &str, value: Value| {
        let mut section = json!({ "routes": { "ci": { "secret": SECRET } } });
        section[key] = value;
        refused(section)
    };
    assert!(with("listen", json!("8644")).starts_with("`listen` is \"8644\""));
    assert!(with("routes_dir", json!("routes")).contains("absolute path"));
    assert!(with("rate_per_minute", json!(0)).contains("rate_per_minute = 0; choose 1 to 3600"));
    assert!(with("rate_per_minute", json!(600)).contains("set replay_s to at most 360"));
    assert!(with("body_bytes_max", json!(1)).contains("body_bytes_max = 1;"));
    assert!(with("replay_s", json!(400)).contains("set replay_s to 600 or more"));
    let named = |name: &str| refused(json!({ "secret": SECRET, "routes": { name: {} } }));
    assert!(named("a/b").contains("has an invalid name") && named("").contains("has an invalid name"));
    let signed = refused(json!({ "secret": SECRET, "routes": { "ci": { "signature": "sha1" } } }));
    assert!(signed.contains("use auto, github"), "{signed}");
}

#[test]
fn the_port_alone_moves_the_listener() {
    let at = |section: Value| address(&serde_json::from_value(section).unwrap()).map(|address| address.to_string());
    assert_eq!(at(json!({})).unwrap(), "127.0.0.1:8644");
    assert_eq!(at(json!({ "port": 9100 })).unwrap(), "127.0.0.1:9100");
    assert_eq!(at(json!({ "listen": "localhost:1" })).unwrap(), "127.0.0.1:1");
    assert_eq!(at(json!({ "listen": "[::]:80", "port": 81 })).unwrap(), "[::]:81");
}
