//! Tests of the access control.

use super::*;

/// Returns the error of `config check`; such a section creates no instance either.
fn wrong(config: Value) -> String {
    assert!(MockHost::start::<ApiServer>(config.clone()).is_err());
    MockHost::check_config::<ApiServer>(&config).unwrap_err()
}

#[test]
fn nothing_but_health_is_open_without_the_key() {
    let world = World::new();
    for path in ["/health", "/v1/health"] {
        let answer = world.address.get(path, &[("authorization", "-")]);
        assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("ok")));
    }
    for wrong in ["-", "Bearer", "Bearer wrong", "Basic 0123456789abcdef-test", &format!("Bearer {KEY}x")] {
        for path in ["/v1/models", "/nowhere"] {
            let answer = world.address.get(path, &[("authorization", wrong)]);
            assert_eq!((answer.status, answer.error_code().as_str()), (401, "invalid_api_key"), "{wrong} {path}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
    assert!(world.host.emitted().is_empty());
}

#[test]
fn web_pages_and_renamed_hosts_get_nothing() {
    let world = World::new();
    for host in ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", ""] {
        let answer = world.address.get("/health", &[("host", host)]);
        assert_eq!((answer.status, answer.error_code().as_str()), (403, "host_not_allowed"), "{host:?}");
    }
    let answer = world.address.get("/v1/models", &[("origin", "https://evil.example")]);
    assert_eq!((answer.status, answer.error_code().as_str()), (403, "origin_not_allowed"));
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    assert_eq!(world.address.get("/health", &[("host", "localhost:1234")]).status, 200);
    let no_host = world.address.raw("GET /health HTTP/1.0\r\n\r\n").response();
    assert_eq!(no_host.status, 403);
}

#[test]
fn a_page_that_the_operator_names_may_call() {
    let world = World::with(MockHost::setup("api_server"), json!({"cors_origins": ["https://chat.example"]}));
    let page = ("origin", "https://chat.example");
    let preflight = [page, ("access-control-request-method", "POST"), ("authorization", "-")];
    let answer = world.address.open("OPTIONS", "/v1/chat/completions", &preflight, "").response();
    assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (204, "https://chat.example"));
    assert!(answer.headers["access-control-allow-headers"].contains("authorization"));
    let answer = world.address.get("/v1/models", &[page]);
    assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (200, "https://chat.example"));
    let other = world.address.get("/v1/models", &[("origin", "https://chat.example.evil.example")]);
    assert_eq!(other.status, 403);
    let no_key = world.address.get("/v1/models", &[page, ("authorization", "-")]);
    assert_eq!(no_key.status, 401);
}

#[test]
fn a_key_is_made_once_kept_and_announced() {
    let host = MockHost::start::<ApiServer>(json!({"listen": "127.0.0.1:0"})).unwrap();
    host.connect().unwrap();
    let key = host.kv("key").unwrap();
    let announced = host.next_host_call("announce");
    assert!(announced["label"].as_str().unwrap().contains(&key), "{announced}");
    let _run = host.run();
    let address = Address::of_url(announced["url"].as_str().unwrap());
    let bearer = format!("Bearer {key}");
    assert_eq!(address.get("/v1/models", &[("authorization", &bearer)]).status, 200);
    assert_eq!(address.get("/v1/models", &[]).status, 401);

    let kept = key.clone();
    let setup = MockHost::setup("again")
        .answer("kv.get", move |payload| Ok(json!({"value": (payload["key"] == "key").then(|| kept.clone())})));
    let again = setup.start::<ApiServer>(json!({"listen": "127.0.0.1:0"})).unwrap();
    again.connect().unwrap();
    assert!(again.next_host_call("announce")["label"].as_str().unwrap().contains(&key));
    assert!(again.host_calls().iter().all(|call| call.method != "kv.set"));
}

#[test]
fn a_configured_key_is_not_announced() {
    let world = World::new();
    let calls = world.host.host_calls();
    assert!(calls.iter().all(|call| !call.payload.to_string().contains(KEY)));
}

#[test]
fn off_loopback_there_is_no_start_without_a_good_key() {
    let sentence = wrong(json!({"listen": "0.0.0.0:0"}));
    assert!(sentence.contains("`key`") && sentence.contains("127.0.0.1"), "{sentence}");
    let sentence = wrong(json!({"listen": "0.0.0.0:0", "key": "short"}));
    assert!(sentence.contains("too weak") && !sentence.contains("short\""), "{sentence}");
    let sentence = wrong(json!({"listen": "127.0.0.1:0", "key": "changeme-changeme"}));
    assert!(sentence.contains("placeholder"), "{sentence}");
    MockHost::start::<ApiServer>(json!({"listen": "0.0.0.0:0", "key": KEY})).unwrap().connect().unwrap();
}

#[test]
fn values_that_cannot_work_are_named() {
    for (key, value) in [
        ("listen", json!("8642")),
        ("listen", json!("nonsense")),
        ("listen", json!("127.0.0.1:99999")),
        ("request_timeout_s", json!(0)),
        ("requests_max", json!(0)),
        ("body_bytes_max", json!(100_000_000)),
        ("cors_origins", json!(["chat.example"])),
    ] {
        let sentence = wrong(json!({"key": KEY, key: value}));
        assert!(sentence.contains(&format!("`{key}`")) && sentence.contains("; "), "{sentence}");
    }
    assert!(MockHost::start::<ApiServer>(json!({"lisen": ""})).is_err());
}

#[test]
fn a_port_in_use_is_named_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let host = MockHost::start::<ApiServer>(json!({"listen": listen, "key": KEY})).unwrap();
    let Err(ConnectError::Retry { reason, .. }) = host.connect() else { panic!("it comes free") };
    let holder = format!("process {}", std::process::id());
    assert!(reason.contains("`listen`") && reason.contains(&listen) && reason.contains(&holder), "{reason}");
    drop(taken);
    host.connect().expect("the port is free");
}

#[test]
fn a_name_that_nobody_answers_for_is_asked_again() {
    let host = MockHost::start::<ApiServer>(json!({"listen": "no-such-host.invalid:0", "key": KEY})).unwrap();
    assert!(matches!(host.connect(), Err(ConnectError::Retry { reason, .. }) if reason.contains("no-such-host")));
}

#[test]
fn hundreds_of_idle_connections_keep_no_caller_with_the_key_out() {
    let world = World::new();
    let mut idle = Vec::new();
    for n in 0..300 {
        let end = if n % 3 == 0 { "" } else { "\r\n" };
        let path = if n % 2 == 0 { "/health" } else { "/v1/models" };
        let connection = world.address.idle(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{end}", world.address.host()));
        idle.push(connection);
    }
    for _ in 0..5 {
        assert_eq!(world.address.get("/v1/models", &[]).status, 200);
        assert_eq!(world.address.get("/health", &[("authorization", "-")]).status, 200);
    }
}

#[test]
fn a_body_over_the_limit_is_answered_and_not_cut_off() {
    let world = World::with(MockHost::setup("api_server"), json!({ "body_bytes_max": 1024 }));
    for bytes in [1025, 100_000, 5_000_000] {
        let answer = world.address.post("/v1/chat/completions", &[], &"x".repeat(bytes));
        assert_eq!(answer.status, 413, "{bytes}");
    }
}
