//! One list of cases for both links: a vtable in this process, frames to a child.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use hermes_adapter_abi::{CALLS_MAX, SDK_VERSION, status};
use hermes_protocol::{Envelope, HostInfo, SendOutcome, method};
use serde_json::json;

use super::support::*;
use crate::discover::{Admitted, Pin, admit_file};
use crate::ffi::{HostPort, Reply};
use crate::frame::{FRAME_BYTES_MAX, PROTOCOL};
use crate::in_process::InProcess;
use crate::process::{ChildSpec, HostHello};
use crate::schema::runner_arguments;
use crate::{AdapterLink, Answer, Destroyed, Isolation, LoadError, Place, in_process, process, schema};

const DEADLINE: Duration = Duration::from_secs(20);

/// A port that records calls, and answers `secret`.
#[derive(Default)]
struct Port {
    logs: Mutex<Vec<(u8, String)>>,
    calls: Mutex<Vec<String>>,
}

impl HostPort for Port {
    fn call(&self, method: &str, _payload: Vec<u8>, reply: Reply) {
        self.calls.lock().unwrap().push(method.to_owned());
        match method {
            "secret" => reply.send(status::OK, br#"{"value":"s3cret-token"}"#.to_vec()),
            "lost" => drop(reply),
            _ => reply.send(status::OK, b"{}".to_vec()),
        }
    }

    fn log(&self, level: u8, _target: &str, fields: &str) {
        self.logs.lock().unwrap().push((level, fields.to_owned()));
    }

    fn max_level(&self) -> u8 {
        5
    }
}

/// A running instance of the hostile library.
struct Case {
    link: Arc<dyn AdapterLink>,
    port: Arc<Port>,
    _home: Home,
}

async fn create(isolation: Isolation, mode: &str, create: Duration) -> Result<Case, LoadError> {
    let home = Home::hostile();
    let settings = home.settings();
    let admitted = admit_file(&home.library(), Place::Folder, Pin::AcceptNew, &settings).unwrap();
    let port = Arc::new(Port::default());
    let config = json!({"mode": mode, "token": "s3cret-token"});
    let envelope = Envelope::new(HostInfo::new(SDK_VERSION, Vec::new()), "one", config);
    let link: Arc<dyn AdapterLink> = match isolation {
        Isolation::InProcess => inside(&admitted, &envelope, Arc::clone(&port), create)?,
        Isolation::Process => {
            let mut command = runner_command();
            command.extend(runner_arguments(&admitted.path, &admitted.copy));
            let spec = ChildSpec { command, env: Vec::new(), folder: None };
            let hello = HostHello {
                protocol: PROTOCOL,
                envelope: serde_json::to_value(&envelope).unwrap(),
                create_ms: u64::try_from(create.as_millis()).unwrap(),
                log_level: 5,
                origin: admitted.path.display().to_string(),
            };
            let child = process::start(&spec).await.unwrap();
            let asked = Arc::clone(&port) as Arc<dyn HostPort>;
            let (link, manifest) = child.link("one", &hello, asked, DEADLINE).await?;
            assert_eq!(manifest.id, "hostile");
            Arc::new(link)
        }
    };
    Ok(Case { link, port, _home: home })
}

fn inside(
    admitted: &Admitted,
    envelope: &Envelope,
    port: Arc<Port>,
    create: Duration,
) -> Result<Arc<dyn AdapterLink>, LoadError> {
    let admitted = admitted.clone();
    let load = move || {
        let Admitted { path, copy, manifest, manifest_json, .. } = &admitted;
        in_process::open(path, copy, &manifest.sdk, manifest_json)
    };
    let envelope = serde_json::to_vec(envelope).unwrap();
    Ok(Arc::new(InProcess::new(in_process::create(SDK_VERSION, load, "one", port, envelope, create)?)))
}

impl Case {
    async fn start(isolation: Isolation, mode: &str) -> Self {
        let case = create(isolation, mode, DEADLINE).await.unwrap();
        assert_eq!(case.link.isolation(), isolation);
        case
    }

    async fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
        tokio::time::timeout(DEADLINE, self.link.call(method, payload)).await.expect("an answer comes")
    }

    async fn send(&self, text: &str) -> Answer {
        self.call(method::SEND, serde_json::to_vec(&message(text)).unwrap()).await
    }

    async fn end(self) -> Destroyed {
        assert!(self.link.shutdown(DEADLINE).await.is_ok());
        self.link.destroy(DEADLINE).await
    }
}

fn delivered(answer: &Answer) -> bool {
    let outcome = serde_json::from_slice(&answer.payload);
    answer.is_ok() && matches!(outcome, Ok(SendOutcome::Delivered { .. }))
}

/// Each case runs over both links.
macro_rules! over_both {
    ($($(#[$doc:meta])* async fn $name:ident($isolation:ident: Isolation) $body:block)+) => { $(
        mod $name {
            use super::*;

            $(#[$doc])*
            async fn case($isolation: Isolation) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn in_process() {
                case(Isolation::InProcess).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn process() {
                case(Isolation::Process).await;
            }
        }
    )+ };
}

over_both! {
    async fn a_call_is_answered(isolation: Isolation) {
        let case = Case::start(isolation, "ok").await;
        assert!(case.call(method::CONNECT, b"{}".to_vec()).await.is_ok());
        assert!(delivered(&case.send("hello").await));
        assert!(case.link.heartbeat().await);
        assert_eq!(case.end().await, Destroyed::Joined);
    }

    async fn an_unknown_method_is_unsupported(isolation: Isolation) {
        let case = Case::start(isolation, "ok").await;
        assert_eq!(case.call("dance", b"{}".to_vec()).await.status, status::UNSUPPORTED);
        assert_eq!(case.call(method::EDIT, b"{}".to_vec()).await.status, status::UNSUPPORTED);
    }

    async fn an_unreadable_payload_is_an_error(isolation: Isolation) {
        let case = Case::start(isolation, "ok").await;
        assert_eq!(case.call(method::SEND, b"nonsense".to_vec()).await.status, status::ERR);
        let too_long = vec![b' '; FRAME_BYTES_MAX + 1];
        assert_eq!(case.call(method::SEND, too_long).await.status, status::ERR);
        assert!(delivered(&case.send("still there").await));
    }

    async fn a_panic_poisons_the_instance(isolation: Isolation) {
        let case = Case::start(isolation, "panic_in_send").await;
        assert_eq!(case.send("x").await.status, status::PANIC);
        assert_eq!(case.send("x").await.status, status::POISONED);
        let said = case.port.logs.lock().unwrap().iter().any(|(_, fields)| fields.contains("hostile in send"));
        assert!(said, "the panic is logged");
        assert_eq!(case.end().await, Destroyed::Joined);
    }

    async fn a_panic_in_a_task_ends_the_receive_loop(isolation: Isolation) {
        let case = Case::start(isolation, "panic_in_task").await;
        let running = case.link.call(method::RUN, b"{}".to_vec());
        case.send("x").await;
        let answer = tokio::time::timeout(DEADLINE, running).await.unwrap();
        assert_eq!(answer.status, status::PANIC);
    }

    async fn a_call_that_nobody_waits_for_is_cancelled(isolation: Isolation) {
        let case = Case::start(isolation, "hang_in_send").await;
        // One call fits after as many were dropped as fit: so they were cancelled.
        for _ in 0..2 {
            let calls: Vec<_> = (0..CALLS_MAX).map(|_| {
                case.link.call(method::SEND, serde_json::to_vec(&message("x")).unwrap())
            }).collect();
            case.call(method::HEALTH, b"{}".to_vec()).await;
            drop(calls);
            let free = async {
                while !case.call(method::HEALTH, b"{}".to_vec()).await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(DEADLINE, free).await.unwrap();
        }
    }

    async fn more_calls_than_fit_are_busy(isolation: Isolation) {
        let case = Case::start(isolation, "hang_in_send").await;
        let payload = serde_json::to_vec(&message("x")).unwrap();
        let open: Vec<_> = (0..CALLS_MAX).map(|_| case.link.call(method::SEND, payload.clone())).collect();
        assert_eq!(case.call(method::SEND, payload).await.status, status::BUSY);
        drop(open);
    }

    async fn what_the_adapter_asks_is_answered(isolation: Isolation) {
        let case = Case::start(isolation, "ok").await;
        assert!(delivered(&case.send("secret token").await));
        assert_eq!(*case.port.calls.lock().unwrap(), ["secret"]);
        let dropped = case.send("call lost").await;
        assert!(String::from_utf8_lossy(&dropped.payload).contains("unavailable"), "{dropped:?}");
    }

    async fn records_reach_the_host(isolation: Isolation) {
        let case = Case::start(isolation, "ok").await;
        case.send("tell").await;
        let told = async {
            loop {
                let logs = case.port.logs.lock().unwrap().clone();
                if let Some((level, _)) = logs.iter().find(|(_, fields)| fields.contains("the token is")) {
                    return *level;
                }
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(tokio::time::timeout(DEADLINE, told).await.unwrap(), 2);
    }

    async fn open_calls_are_dropped_when_the_instance_ends(isolation: Isolation) {
        let case = Case::start(isolation, "hang_in_send").await;
        let open = case.link.call(method::SEND, serde_json::to_vec(&message("x")).unwrap());
        assert!(case.call(method::HEALTH, b"{}".to_vec()).await.is_ok());
        let link = Arc::clone(&case.link);
        assert_eq!(case.end().await, Destroyed::Joined);
        assert_eq!(tokio::time::timeout(DEADLINE, open).await.unwrap().status, status::DROPPED);
        let after = link.call(method::HEALTH, b"{}".to_vec()).await;
        assert!(matches!(after.status, status::DROPPED | status::BUSY), "{after:?}");
    }

    async fn a_constructor_that_panics_is_refused(isolation: Isolation) {
        let refused = create(isolation, "panic_in_create", DEADLINE).await.err().unwrap();
        assert_eq!(refused.code(), "create_panicked");
    }

    async fn a_constructor_that_does_not_return_is_refused(isolation: Isolation) {
        let refused = create(isolation, "hang_in_create", Duration::from_millis(50)).await.err().unwrap();
        assert_eq!(refused.code(), "create_timed_out");
    }

    async fn a_configuration_that_cannot_be_read_is_refused(isolation: Isolation) {
        let refused = create(isolation, "no_such_mode", DEADLINE).await.err().unwrap();
        assert_eq!(refused.code(), "create_failed");
        assert!(refused.to_string().contains("mode"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_says_how() {
    for (mode, how) in [("exit_in_send", "exited with code 7"), ("abort_in_send", "signal 6")] {
        let case = Case::start(Isolation::Process, mode).await;
        let closed = case.link.closed();
        assert_eq!(case.send("x").await.status, status::DROPPED);
        let why = tokio::time::timeout(DEADLINE, closed).await.unwrap();
        assert!(why.contains(how), "{why}");
        assert!(!case.link.heartbeat().await);
        assert_eq!(case.send("x").await.status, status::BUSY, "what was never written was never sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_in_its_constructor_is_refused_with_its_signal() {
    let refused = create(Isolation::Process, "abort_in_create", DEADLINE).await.err().unwrap();
    assert_eq!(refused.code(), "process_failed");
    assert!(refused.to_string().contains("signal 6"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_gone_when_its_link_is_dropped() {
    let case = Case::start(Isolation::Process, "busy_loop").await;
    let closed = case.link.closed();
    drop(case);
    assert!(tokio::time::timeout(DEADLINE, closed).await.unwrap().contains("signal 9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_speak_frames_is_refused() {
    for command in [["/bin/cat", "/dev/null"].as_slice(), &["/bin/cat"], &["/nonexistent/program"]] {
        let mut started = runner_command();
        started.extend(schema::parent());
        started.push("--exec".into());
        started.extend(command.iter().map(Into::into));
        let spec = ChildSpec { command: started, env: Vec::new(), folder: None };
        let child = process::start(&spec).await.unwrap();
        let hello =
            HostHello { protocol: PROTOCOL, envelope: json!({}), create_ms: 1, log_level: 0, origin: String::new() };
        let refused = child.link("one", &hello, Arc::new(Port::default()), DEADLINE).await.err().unwrap();
        assert_eq!(refused.code(), "process_failed", "{refused}");
    }
}

#[test]
fn a_library_opens_twice_and_its_instances_are_apart() {
    let home = Home::hostile();
    let admitted = admit_file(&home.library(), Place::Folder, Pin::AcceptNew, &home.settings()).unwrap();
    assert!(admitted.copy.starts_with(home.path().join("run/plugins")));
    let open = |path: &Path| in_process::open(path, &admitted.copy, "1.0.0", &admitted.manifest_json);
    assert!(open(&admitted.path).is_ok());
    assert!(open(&admitted.path).is_ok());
}
