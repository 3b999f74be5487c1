//! Tests of the client with faulty servers.

#![cfg(feature = "client")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::time::Duration;

use hermes_adapter_net::body::{BodyError, read_bytes, read_json, read_start};
use hermes_adapter_net::client::{base_url, http_client, is_loopback};
use hermes_adapter_net::error::Step;
use hermes_adapter_net::fetch::{FetchError, FetchOptions, Fetcher};
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hermes_adapter_net::{ClientError, ClientOptions, NetError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

#[path = "client/trust.rs"]
mod trust;

#[path = "client/proxies.rs"]
mod proxies;

/// Serves `answers` in turn, one connection each, and returns the received requests.
async fn serve(answers: Vec<Vec<u8>>) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = seen.send(read_request(&mut stream).await);
            let _ = stream.write_all(&answer).await;
        }
    });
    (address, requests)
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(read) => request.extend_from_slice(&piece[..read]),
        }
    }
    String::from_utf8_lossy(&request).into_owned()
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn options() -> ClientOptions {
    let mut options = ClientOptions::default();
    options.plain_http = true;
    options.total_timeout = Some(Duration::from_secs(5));
    options
}

async fn get(address: SocketAddr, options: &ClientOptions) -> Result<hermes_adapter_net::reqwest::Response, NetError> {
    let url = format!("http://{address}/bot123:SECRET/getMe");
    Ok(http_client(options).unwrap().get(url).send().await?)
}

#[test]
fn a_client_with_system_certificates_is_built_as_often_as_one_likes() {
    for _ in 0..2 {
        http_client(&ClientOptions::default()).unwrap();
    }
}

#[tokio::test]
async fn a_refused_connection_was_certainly_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = get(address, &options()).await.unwrap_err();
    assert!(matches!(error, NetError::NotSent { step: Step::Connect, .. }), "{error:?}");
}

#[tokio::test]
async fn a_name_without_address_was_certainly_not_sent() {
    let client = http_client(&options()).unwrap();
    let error = client.get("http://no-such-host.invalid/").send().await.unwrap_err();
    assert!(NetError::from(error).is_not_sent());
}

#[tokio::test]
async fn a_connection_cut_after_the_request_is_doubtful_and_hides_the_address() {
    let (address, _requests) = serve(vec![Vec::new()]).await;
    let error = get(address, &options()).await.unwrap_err();
    assert!(matches!(error, NetError::Doubtful { timed_out: false, .. }), "{error:?}");
    assert!(!error.to_string().contains("SECRET"), "{error}");
}

#[tokio::test]
async fn silence_after_the_request_is_doubtful_and_called_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options();
    options.total_timeout = Some(Duration::from_millis(50));
    let error = get(listener.local_addr().unwrap(), &options).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[tokio::test]
async fn redirects_are_not_followed_unless_asked() {
    let redirect = answer("302 Found", "location: http://127.0.0.1:1/\r\n", b"");
    let (address, _requests) = serve(vec![redirect]).await;
    assert_eq!(get(address, &options()).await.unwrap().status().as_u16(), 302);
}

#[tokio::test]
async fn bodies_are_read_up_to_their_limit_and_no_further() {
    let unbounded = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n12345678901".to_vec();
    let ten = answer("200 OK", "", b"1234567890");
    let (address, _requests) = serve(vec![ten.clone(), ten.clone(), unbounded, ten]).await;
    assert_eq!(read_bytes(get(address, &options()).await.unwrap(), 10).await.unwrap(), b"1234567890");
    let too_large = Err(BodyError::TooLarge { bytes_max: 9 });
    assert_eq!(read_bytes(get(address, &options()).await.unwrap(), 9).await, too_large);
    assert_eq!(read_bytes(get(address, &options()).await.unwrap(), 9).await, too_large, "also without a length");
    assert_eq!(read_start(get(address, &options()).await.unwrap(), 4).await, "1234");
}

#[tokio::test]
async fn a_body_cut_short_is_not_a_whole_answer() {
    let cut = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{}".to_vec();
    let (address, _requests) = serve(vec![cut]).await;
    let error = read_bytes(get(address, &options()).await.unwrap(), 1000).await.unwrap_err();
    assert!(matches!(error, BodyError::Net(NetError::Doubtful { .. })), "{error:?}");
}

#[tokio::test]
async fn unexpected_json_is_refused_without_being_quoted() {
    let (address, _requests) = serve(vec![answer("200 OK", "", br#"{"id":"hunter2"}"#)]).await;
    #[derive(Debug, serde::Deserialize)]
    struct Expected {
        #[expect(dead_code, reason = "only its type matters")]
        id: u64,
    }
    let error = read_json::<Expected>(get(address, &options()).await.unwrap(), 1000).await.unwrap_err();
    assert!(matches!(error, BodyError::Json(_)), "{error:?}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn a_ca_file_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let mut options = ClientOptions::default();
    options.ca_file = Some(path.clone());
    assert!(matches!(http_client(&options), Err(ClientError::CaFile { .. })));
    std::fs::write(&path, "no certificate").unwrap();
    let error = http_client(&options).unwrap_err();
    assert!(matches!(error, ClientError::CaContent { .. }), "{error:?}");
    assert!(error.to_string().contains("ca.pem"));
}

#[test]
fn base_addresses_are_checked_and_cleaned() {
    assert_eq!(base_url(" https://api.example/v1/ ").unwrap().as_str(), "https://api.example/v1");
    assert!(is_loopback(&base_url("http://[::1]:8080").unwrap()));
    assert!(!is_loopback(&base_url("http://localhost.example").unwrap()));
    for wrong in
        ["", "api.example", "ftp://a.example", "https://u:p@a.example", "https://a.example?x=1", "http:///v1#f"]
    {
        assert!(base_url(wrong).is_err(), "{wrong:?}");
    }
}

fn fetcher(origins: &[SocketAddr]) -> Fetcher {
    let origins = origins.iter().map(|origin| Url::parse(&format!("http://{origin}/any/path")).unwrap()).collect();
    let mut options = FetchOptions::with_origins(origins);
    options.bytes_max = 10;
    options.deadline = Duration::from_secs(5);
    Fetcher::new(options).unwrap()
}

fn credential() -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer SECRET"))])
}

#[tokio::test]
async fn nothing_inside_is_fetched_unless_its_origin_is_configured() {
    let (address, mut requests) = serve(vec![answer("200 OK", "content-type: image/png; q=1\r\n", b"12345")]).await;
    let port = address.port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://user@example.org/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "no address".to_owned(),
    ] {
        let error = fetcher(&[]).fetch(&url, HeaderMap::new()).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden { .. }), "{url}: {error:?}");
    }
    assert!(requests.try_recv().is_err(), "no connection was made");
    let fetched = fetcher(&[address]).fetch(&format!("http://{address}/file"), credential()).await.unwrap();
    assert_eq!(fetched.content_type(), Some("image/png"));
    assert_eq!(fetched.bytes().await.unwrap(), b"12345");
}

#[tokio::test]
async fn a_redirect_inwards_is_refused_and_one_between_configured_origins_loses_the_credential() {
    let (inside, mut inside_requests) = serve(vec![answer("200 OK", "", b"inside")]).await;
    let redirect = || answer("302 Found", &format!("location: http://{inside}/secret\r\n"), b"");
    let (outside, mut requests) = serve(vec![redirect(), redirect()]).await;
    let url = format!("http://{outside}/");

    let error = fetcher(&[outside]).fetch(&url, credential()).await.unwrap_err();
    assert!(matches!(error, FetchError::Forbidden { .. }), "{error:?}");
    assert!(!error.to_string().contains("secret"));
    assert!(inside_requests.try_recv().is_err());

    let fetched = fetcher(&[outside, inside]).fetch(&url, credential()).await.unwrap();
    assert_eq!(fetched.bytes().await.unwrap(), b"inside");
    assert!(requests.recv().await.unwrap().contains("SECRET"));
    assert!(!inside_requests.recv().await.unwrap().contains("SECRET"));
}

#[tokio::test]
async fn fetching_keeps_its_bounds() {
    let long = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n12345678901".to_vec();
    let (address, _requests) =
        serve(vec![answer("200 OK", "", b"12345678901"), long, answer("404 Not Found", "", b"")]).await;
    let url = format!("http://{address}/");
    let fetcher = fetcher(&[address]);
    let too_large = FetchError::TooLarge { bytes_max: 10 };
    assert_eq!(fetcher.fetch(&url, HeaderMap::new()).await.unwrap_err(), too_large);
    assert_eq!(fetcher.fetch(&url, HeaderMap::new()).await.unwrap().bytes().await.unwrap_err(), too_large);
    assert_eq!(fetcher.fetch(&url, HeaderMap::new()).await.unwrap_err(), FetchError::Status(404));
}

#[tokio::test]
async fn a_redirect_in_a_circle_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_request(&mut stream).await;
            let _ = stream.write_all(&answer("307 Temporary Redirect", "location: /\r\n", b"")).await;
        }
    });
    let error = fetcher(&[address]).fetch(&format!("http://{address}/"), HeaderMap::new()).await.unwrap_err();
    assert!(matches!(error, FetchError::Forbidden { why: "too many redirects", .. }), "{error:?}");
}

#[tokio::test]
async fn a_silent_server_runs_into_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = FetchOptions::with_origins(vec![Url::parse(&format!("http://{address}")).unwrap()]);
    options.deadline = Duration::from_millis(50);
    let error =
        Fetcher::new(options).unwrap().fetch(&format!("http://{address}/"), HeaderMap::new()).await.unwrap_err();
    assert_eq!(error, FetchError::Deadline(Duration::from_millis(50)));
}
