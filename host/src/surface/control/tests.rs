use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::*;
use crate::engine::operator::{ErrorKind, LINE_BYTES_MAX};

#[tokio::test]
async fn a_request_reaches_the_host_and_its_answer_the_client() {
    let home = tempfile::tempdir().unwrap();
    let _host = host(home.path(), 4);
    let mut client = Client::connect(home.path()).await.unwrap();
    let reply = client.ask(&ControlRequest::OutboxShow { delivery: 7 }).await.unwrap();
    assert_eq!(reply, ControlReply::done(r#"{"type":"outbox_show","delivery":7}"#));
    let reply = client.ask(&ControlRequest::Status {}).await.unwrap();
    assert_eq!(reply, ControlReply::done(r#"{"type":"status"}"#));
}

#[tokio::test]
async fn a_home_with_a_very_long_path_has_a_socket_too() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("a-long-name-of-a-folder".repeat(8)).join("another-one".repeat(8));
    std::fs::create_dir_all(&home).unwrap();
    let _host = host(&home, 4);
    assert!(home.join("host.sock").exists());
    Client::connect(&home).await.unwrap().ask(&ControlRequest::Drain { undo: false }).await.unwrap();
}

#[tokio::test]
async fn the_socket_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let _host = host(home.path(), 4);
    let mode = std::fs::metadata(home.path().join("host.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_socket_of_a_dead_host_is_replaced_and_a_file_of_that_name_is_not() {
    let home = tempfile::tempdir().unwrap();
    drop(bind(home.path()).unwrap());
    assert!(matches!(Client::connect(home.path()).await, Err(ClientError::NotRunning { .. })));
    drop(bind(home.path()).unwrap());

    std::fs::remove_file(home.path().join("host.sock")).unwrap();
    std::fs::write(home.path().join("host.sock"), "precious").unwrap();
    let error = bind(home.path()).unwrap_err().to_string();
    assert!(error.contains("is not a socket; move it away"), "{error}");
    assert_eq!(std::fs::read(home.path().join("host.sock")).unwrap(), b"precious");
}

#[tokio::test]
async fn without_a_host_the_client_says_how_to_start_one() {
    let home = tempfile::tempdir().unwrap();
    let error = Client::connect(home.path()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no host is running for {}; start it with `hermes-host run`", home.path().display())
    );
}

#[tokio::test]
async fn hostile_lines_are_answered_with_a_sentence_and_harm_nobody() {
    let home = tempfile::tempdir().unwrap();
    let _host = host(home.path(), 4);
    let hello = "{\"type\":\"hello\",\"version\":1}\n";
    let deep = format!("{hello}{{\"x\":{}\n", "[".repeat(100_000));
    let cases: [(&str, &str); 8] = [
        ("GET / HTTP/1.1\r\n", "the first line must be hello"),
        ("{\"type\":\"status\"}\n", "the first line must be hello"),
        ("{\"type\":\"hello\",\"version\":2}\n", "uses version 1 of the control protocol, not 2"),
        (&format!("{hello}{{\"type\":\"launch\"}}\n"), "not a request: unknown variant `launch`"),
        (&format!("{hello}{{\"type\":\"outbox_show\",\"delivery\":\"7\"}}\n"), "not a request: invalid type: string"),
        (&format!("{hello}{{\"type\":\"outbox_show\",\"delivery\":7,\"force\":true}}\n"), "unknown field `force`"),
        (&format!("{hello}\u{0}\u{1}\n"), "not a request"),
        (&deep, "recursion limit exceeded"),
    ];
    for (sent, expected) in cases {
        let mut stream = socket::connect(home.path()).unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(expected), "{} → {answer}", &sent[..sent.len().min(80)]);
    }
    Client::connect(home.path()).await.unwrap().ask(&ControlRequest::Drain { undo: false }).await.unwrap();
}

#[tokio::test]
async fn an_endless_line_is_cut_off_at_its_bound() {
    let home = tempfile::tempdir().unwrap();
    let _host = host(home.path(), 4);
    let stream = socket::connect(home.path()).unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let flood = tokio::spawn(async move {
        let chunk = vec![b'x'; 64 * 1024];
        let mut sent = 0_usize;
        // The host disconnects after the bound and accepts bytes until shortly after it.
        while writer.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let mut answer = Vec::new();
    // The host may reset the connection with unread bytes; its earlier answer counts.
    let _ = reader.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("longer than 1048576 bytes"), "{answer}");
    assert!(flood.await.unwrap() < 4 * LINE_BYTES_MAX);
}

#[tokio::test]
async fn a_client_beyond_the_bound_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let _host = host(home.path(), 1);
    let mut first = Client::connect(home.path()).await.unwrap();
    let error = Client::connect(home.path()).await.unwrap_err().to_string();
    assert_eq!(error, "the control socket has too many clients; end one and try again");
    first.ask(&ControlRequest::Status {}).await.unwrap();
}

#[tokio::test]
async fn a_client_that_says_nothing_loses_its_place() {
    let home = tempfile::tempdir().unwrap();
    let short = Duration::from_millis(20);
    let waits = server::Waits { hello: short, request: short, answer: short, write: Duration::from_secs(10) };
    let (requests, mut inbox) = mpsc::channel::<Asked>(1);
    let server = tokio::spawn(server::serve_within(bind(home.path()).unwrap(), way(requests), 1, waits));
    let mut answer = String::new();
    socket::connect(home.path()).unwrap().read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("the first line must be hello: timed out after 0.02 s"), "{answer}");

    let mut stream = socket::connect(home.path()).unwrap();
    stream.write_all(b"{\"type\":\"hello\",\"version\":1}\n{\"type\":\"reload\"}\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("the host did not answer within 0 s; the request may still complete"), "{answer}");
    assert!(answer.contains("not a request: timed out after"), "{answer}");
    assert!(inbox.recv().await.is_some());
    server.abort();
}

#[tokio::test]
async fn a_host_that_drops_a_request_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let listener = bind(home.path()).unwrap();
    let (requests, mut inbox) = mpsc::channel::<Asked>(1);
    let server = tokio::spawn(serve(listener, requests, None, Arc::default(), 4, Answers::default()));
    let dropper = tokio::spawn(async move { inbox.recv().await.map(|(request, ..)| request) });
    let mut client = Client::connect(home.path()).await.unwrap();
    let reply = client.ask(&ControlRequest::Reload {}).await.unwrap();
    assert_eq!(reply, ControlReply::error(ErrorKind::Failed, "the host gave no answer; see its log for the reason"));
    assert_eq!(dropper.await.unwrap(), Some(ControlRequest::Reload {}));
    let reply = client.ask(&ControlRequest::Reload {}).await.unwrap();
    assert_eq!(reply, ControlReply::error(ErrorKind::Busy, "the host is stopping"));
    server.abort();
}

#[tokio::test]
async fn whoever_asks_a_host_to_end_has_the_answer_before_it_ends() {
    let home = tempfile::tempdir().unwrap();
    let listener = bind(home.path()).unwrap();
    let (requests, mut inbox) = mpsc::channel::<Asked>(1);
    let answers = Answers::default();
    let server = tokio::spawn(serve(listener, requests, None, Arc::default(), 4, answers.clone()));
    let host = tokio::spawn(async move {
        let (.., reply) = inbox.recv().await.unwrap();
        reply.send(ControlReply::done("The host is stopping.")).unwrap();
        // The host has nothing to drain, so it ends at once.
        answers.until_written().await;
        server.abort();
        drop(server.await);
        answers
    });
    let mut client = Client::connect(home.path()).await.unwrap();
    assert_eq!(client.ask(&ControlRequest::Stop {}).await.unwrap(), ControlReply::done("The host is stopping."));
    host.await.unwrap().until_written().await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_says_how_to_ask_for_less() {
    let home = tempfile::tempdir().unwrap();
    let listener = bind(home.path()).unwrap();
    let (requests, mut inbox) = mpsc::channel::<Asked>(1);
    let server = tokio::spawn(serve(listener, requests, None, Arc::default(), 4, Answers::default()));
    let host = tokio::spawn(async move {
        let (.., reply) = inbox.recv().await.unwrap();
        reply.send(ControlReply::done("x".repeat(LINE_BYTES_MAX))).unwrap();
    });
    let mut client = Client::connect(home.path()).await.unwrap();
    let reply = client.ask(&ControlRequest::SessionList { limit: 1, all: true }).await.unwrap();
    assert!(matches!(reply, ControlReply::Error { message, .. } if message.contains("--limit")));
    host.await.unwrap();
    server.abort();
}

proptest! {
    #[test]
    fn no_line_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut reader = tokio::io::BufReader::new(bytes.as_slice());
            // Any answer or sentence is accepted.
            match line::read::<ControlRequest>(&mut reader, Duration::from_secs(1)).await {
                Ok(request) => assert!(serde_json::to_string(&request).unwrap().contains("type")),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        });
    }
}

#[test]
fn every_request_reads_back_as_itself() {
    let requests = [
        ControlRequest::Status {},
        ControlRequest::Send {
            target: "telegram:1".into(),
            text: "hi\n".into(),
            file: Some("/tmp/x.txt".into()),
            mirror: true,
        },
        ControlRequest::Send { target: "telegram".into(), text: String::new(), file: None, mirror: false },
        ControlRequest::PairingClear { instance: None },
        ControlRequest::SessionShow { session: "2026".into(), limit: 3 },
        ControlRequest::OutboxDrop { delivery: -1, why: "no".into() },
        ControlRequest::Chat { resume: Some("2026".into()), once: true },
        ControlRequest::HandOver {},
    ];
    for request in requests {
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<ControlRequest>(&line).unwrap(), request, "{line}");
    }
}

fn way(requests: mpsc::Sender<Asked>) -> server::Way {
    let (runs, refused) = (Arc::default(), Arc::default());
    server::Way { requests, seats: None, runs, host: std::process::id(), answers: Answers::default(), refused }
}

/// A host that answers each request with its own text; it ends with the test.
fn host(home: &Path, clients_max: usize) -> tokio::task::JoinSet<()> {
    let listener = bind(home).unwrap();
    let (requests, mut inbox) = mpsc::channel::<Asked>(4);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(serve(listener, requests, None, Arc::default(), clients_max, Answers::default()));
    tasks.spawn(async move {
        while let Some((request, _, reply)) = inbox.recv().await {
            // A client that went away needs no answer.
            let _ = reply.send(ControlReply::done(serde_json::to_string(&request).unwrap()));
        }
    });
    tasks
}
