use std::os::unix::fs::PermissionsExt;

use hermes_adapter_sdk::prelude::*;
use serde_json::json;

use super::*;
use crate::route_files::FILES_MAX;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn routes(&self) -> Routes {
        let section = json!({ "routes": { "fixed": { "secret": "0123456789" } }, "routes_dir": self.0.path() });
        Routes::new(&serde_json::from_value(section).unwrap())
    }

    /// Replaces a file atomically.
    fn write(&self, name: &str, text: &str, mode: u32) {
        let new = self.0.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(mode)).unwrap();
        std::fs::rename(new, self.0.path().join(name)).unwrap();
    }
}

fn one(name: &str, more: Value) -> String {
    let mut route = json!({ "secret": "0123456789" });
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ name: route }).to_string()
}

#[test]
fn a_route_that_is_written_counts_from_the_next_call_on_and_one_that_is_taken_away_no_more() {
    let place = Place::new();
    let routes = place.routes();
    assert!(routes.find_now("fixed").is_some() && routes.find_now("added").is_none());
    place.write("a.json", &one("added", json!({})), 0o600);
    assert!(routes.find_now("added").is_some());
    place.write("a.json", &one("added", json!({ "prompt": "{a}" })), 0o600);
    assert_eq!(routes.find_now("added").unwrap().prompt.as_deref(), Some("{a}"));
    place.write("b.json", &one("another", json!({})), 0o600);
    assert_eq!(routes.count(), 3);
    std::fs::remove_file(place.0.path().join("a.json")).unwrap();
    assert!(routes.find_now("added").is_none() && routes.find_now("another").is_some());
    assert_eq!(routes.faults(), None);
}

#[test]
fn what_is_wrong_costs_its_route_alone_and_is_said() {
    let place = Place::new();
    let routes = place.routes();
    let mut all: Value = serde_json::from_str(&one("good", json!({}))).unwrap();
    all["bare"] = json!({ "prompt": "x" });
    all["odd"] = json!({ "secret": "0123456789", "promt": "x" });
    place.write("a.json", &all.to_string(), 0o600);
    assert!(routes.find_now("good").is_some() && routes.find_now("bare").is_none() && routes.find_now("odd").is_none());
    let said = routes.faults().unwrap();
    assert!(said.contains("a.json: route `bare` has no secret") && said.contains("promt"), "{said}");
    place.write("a.json", "{", 0o600);
    assert!(routes.find_now("good").is_some(), "its previous routes stay active");
    assert!(routes.faults().unwrap().contains("stay active"));
    place.write("a.json", &one("good", json!({})), 0o600);
    assert_eq!(routes.faults(), None);
}

#[test]
fn a_route_of_the_section_wins_and_a_name_counts_once() {
    let place = Place::new();
    let routes = place.routes();
    place.write("a.json", &one("fixed", json!({ "prompt": "mine" })), 0o600);
    assert_eq!(routes.find_now("fixed").unwrap().prompt, None);
    assert!(routes.faults().unwrap().contains("also defined in plugins.toml"));
    place.write("a.json", &one("same", json!({})), 0o600);
    place.write("b.json", &one("same", json!({})), 0o600);
    assert!(routes.faults().unwrap().contains("`same` is also defined in \"a.json\""));
}

#[test]
fn secrets_that_others_may_read_do_not_count() {
    let place = Place::new();
    let routes = place.routes();
    place.write("a.json", &one("open", json!({})), 0o644);
    assert!(routes.find_now("open").is_none());
    assert!(routes.faults().unwrap().contains("chmod 600"));
    std::fs::set_permissions(place.0.path(), PermissionsExt::from_mode(0o700)).unwrap();
    place.write("a.json", &one("closed", json!({})), 0o644);
    assert!(routes.find_now("closed").is_some(), "nobody else gets to it");
}

#[test]
fn what_is_wrong_with_a_secret_is_said_without_it() {
    let place = Place::new();
    let routes = place.routes();
    for wrong in [
        json!({ "secret": 12345678 }),
        json!({ "secrets": "12345678-s3cret" }),
        json!({ "secrets": [12345678] }),
        json!({ "secret": "0123456789", "signature": "12345678-s3cret" }),
    ] {
        place.write("a.json", &json!({ "odd": wrong }).to_string(), 0o600);
        let said = routes.faults().unwrap();
        assert!(said.contains("route `odd` has") && !said.contains("12345678"), "{said}");
    }
}

#[test]
fn a_folder_that_others_may_write_to_adds_nothing() {
    let place = Place::new();
    let routes = place.routes();
    std::fs::set_permissions(place.0.path(), PermissionsExt::from_mode(0o777)).unwrap();
    place.write("a.json", &one("planted", json!({})), 0o600);
    assert!(routes.find_now("planted").is_none());
    assert!(routes.faults().unwrap().contains("chmod 700"));
}

#[test]
fn a_file_of_the_python_gateway_is_read_as_it_is() {
    let place = Place::new();
    let routes = place.routes();
    let extra = json!({
        "description": "alerts", "events": ["alert"], "skills": [], "created_at": "2026-01-01T00:00:00Z",
        "deliver": "telegram", "deliver_extra": { "chat_id": -100, "message_thread_id": "17" },
    });
    place.write("webhook_subscriptions.json", &one("alerts", extra), 0o600);
    assert_eq!(routes.faults(), None);
    assert_eq!(routes.find_now("alerts").unwrap().deliver, Deliver::answer_to("telegram:-100:17").ending());
    place.write("webhook_subscriptions.json", &one("alerts", json!({ "skills": ["x"] })), 0o600);
    assert!(routes.faults().unwrap().contains("skills"), "what is not done is not passed over");
}

#[test]
fn a_folder_that_is_gone_leaves_the_routes_it_had() {
    let place = Place::new();
    let routes = place.routes();
    place.write("a.json", &one("added", json!({})), 0o600);
    assert!(routes.find_now("added").is_some() && routes.missing().is_none());
    std::fs::remove_dir_all(place.0.path()).unwrap();
    assert!(routes.find_now("added").is_some() && routes.missing().is_some());
    assert!(routes.faults().unwrap().contains("cannot be listed"));
}

#[test]
fn a_file_that_is_taken_out_of_a_folder_that_is_too_full_counts_no_more() {
    let place = Place::new();
    let routes = place.routes();
    place.write("a.json", &one("shut_out", json!({})), 0o600);
    place.write("b.json", &one("stays", json!({})), 0o600);
    assert!(routes.find_now("shut_out").is_some());
    for number in 0..=FILES_MAX {
        std::fs::write(place.0.path().join(format!("{number}.json")), "{}").unwrap();
    }
    std::fs::remove_file(place.0.path().join("a.json")).unwrap();
    assert!(routes.find_now("shut_out").is_none() && routes.find_now("stays").is_some());
    assert!(routes.faults().unwrap().contains("more than 200"));
}

#[tokio::test(start_paused = true)]
async fn the_folder_is_looked_at_once_in_a_while_and_who_asks_for_what_is_new_waits_for_that() {
    let place = Place::new();
    let routes = place.routes();
    place.write("a.json", &one("first", json!({})), 0o600);
    assert!(routes.find("first").await.is_some());
    std::fs::remove_file(place.0.path().join("a.json")).unwrap();
    assert!(routes.find("first").await.is_some(), "nobody has looked since");
    tokio::time::advance(CHECK_PAUSE_MIN).await;
    assert!(routes.find("first").await.is_none());
    place.write("b.json", &one("second", json!({})), 0o600);
    let (one, two, none) = tokio::join!(routes.find("second"), routes.find("second"), routes.find("third"));
    assert!(one.is_some() && two.is_some() && none.is_none());
}
