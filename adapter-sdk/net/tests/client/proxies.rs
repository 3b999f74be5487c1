//! Tests of the client behind minimal proxies.

use hermes_adapter_net::ProxySettings;

use super::*;

/// A name that no resolver knows: only the proxy can reach it.
const OUTSIDE: &str = "http://api.invalid";

fn through(proxy: impl Into<String>) -> ClientOptions {
    let mut options = options();
    let proxy = Some(proxy.into());
    options.proxy.http.clone_from(&proxy);
    options.proxy.https = proxy;
    options
}

async fn ask(url: &str, options: &ClientOptions) -> Result<String, NetError> {
    let response = http_client(options).unwrap().get(url).send().await?;
    Ok(String::from_utf8(read_bytes(response, 1000).await.unwrap()).unwrap())
}

/// Returns the detail of an error for a request that was not sent.
async fn not_sent(url: &str, options: &ClientOptions) -> String {
    match ask(url, options).await.unwrap_err() {
        NetError::NotSent { step: Step::Connect | Step::Dns, detail } => detail,
        other => panic!("{other:?}"),
    }
}

async fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Starts a SOCKS proxy for one connection. The proxy requires `user:password` if given, reports the destination, and
/// answers the request behind it with `answer`; `None` rejects the destination.
async fn socks(
    user: Option<(&'static str, &'static str)>,
    answer: Option<Vec<u8>>,
) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let stream = &mut stream;
        let mut head = [0; 2];
        stream.read_exact(&mut head).await.unwrap();
        stream.read_exact(&mut vec![0; head[1].into()]).await.unwrap();
        if let Some((name, password)) = user {
            stream.write_all(&[5, 2]).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), 1);
            for expected in [name, password] {
                let mut field = vec![0; stream.read_u8().await.unwrap().into()];
                stream.read_exact(&mut field).await.unwrap();
                assert_eq!(String::from_utf8(field).unwrap(), expected);
            }
            stream.write_all(&[1, 0]).await.unwrap();
        } else {
            stream.write_all(&[5, 0]).await.unwrap();
        }
        let mut request = [0; 4];
        stream.read_exact(&mut request).await.unwrap();
        let host = match request[3] {
            3 => {
                let mut name = vec![0; stream.read_u8().await.unwrap().into()];
                stream.read_exact(&mut name).await.unwrap();
                String::from_utf8(name).unwrap()
            }
            _ => {
                let mut ip = [0; 4];
                stream.read_exact(&mut ip).await.unwrap();
                std::net::Ipv4Addr::from(ip).to_string()
            }
        };
        let port = stream.read_u16().await.unwrap();
        let _ = seen.send(format!("{host}:{port}"));
        let status = if answer.is_some() { 0 } else { 2 };
        stream.write_all(&[5, status, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        if let Some(answer) = answer {
            read_request(stream).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    (address, heard)
}

#[tokio::test]
async fn a_plain_request_goes_through_an_http_proxy_with_its_credentials() {
    let (address, mut requests) = serve(vec![answer("200 OK", "", b"there")]).await;
    let options = through(format!("http://ada:s%3Acret@{address}"));
    assert_eq!(ask(&format!("{OUTSIDE}/x"), &options).await.unwrap(), "there");
    let request = requests.recv().await.unwrap().to_ascii_lowercase();
    assert!(request.starts_with("get http://api.invalid/x http/1.1\r\n"), "{request}");
    // ada:s:cret
    assert!(request.contains("proxy-authorization: basic ywrhonm6y3jldA==".to_ascii_lowercase().as_str()), "{request}");
}

#[tokio::test]
async fn an_encrypted_request_asks_an_http_proxy_for_a_tunnel() {
    for (status, sentence) in [
        ("403 Forbidden", "refused to connect to the server"),
        ("502 Bad Gateway", "refused to connect to the server"),
        ("407 Proxy Authentication Required", "rejected the credentials"),
    ] {
        let (address, mut requests) = serve(vec![answer(status, "", b"")]).await;
        let options = through(format!("http://{address}"));
        let detail = not_sent("https://api.invalid/bot123:SECRET/x", &options).await;
        assert!(detail.starts_with(&format!("proxy {address} {sentence}")), "{detail}");
        assert!(!detail.contains("SECRET"), "{detail}");
        let request = requests.recv().await.unwrap();
        assert!(request.starts_with("CONNECT api.invalid:443 HTTP/1.1\r\n"), "{request}");
    }
}

#[tokio::test]
async fn a_socks_proxy_gets_the_name_or_the_address_as_its_scheme_says() {
    let (address, mut asked) = socks(None, Some(answer("200 OK", "", b"there"))).await;
    assert_eq!(ask(OUTSIDE, &through(format!("socks5h://{address}"))).await.unwrap(), "there");
    assert_eq!(asked.recv().await.unwrap(), "api.invalid:80");
    let (address, mut asked) = socks(Some(("ada", "p@ss")), Some(answer("200 OK", "", b"there"))).await;
    let options = through(format!("socks5://ada:p%40ss@{address}"));
    assert_eq!(ask("http://192.0.2.7:81/", &options).await.unwrap(), "there");
    assert_eq!(asked.recv().await.unwrap(), "192.0.2.7:81");
    let (address, _asked) = socks(None, None).await;
    let detail = not_sent(OUTSIDE, &through(format!("socks5h://{address}"))).await;
    assert!(detail.starts_with(&format!("proxy {address}")), "{detail}");
}

#[tokio::test]
async fn an_unreachable_proxy_is_named_without_its_credentials() {
    let port = closed_port().await;
    for proxy in
        ["http://ada:hunter2@", "socks5://ada:hunter2@", "socks5h://ada:hunter2@"].map(|lead| format!("{lead}{port}"))
    {
        for url in ["http://192.0.2.7/", "https://192.0.2.7/"] {
            let detail = not_sent(url, &through(&proxy)).await;
            assert_eq!(detail, format!("proxy {port} refused the connection"), "{proxy} {url}");
        }
    }
    let detail = not_sent(OUTSIDE, &through("http://proxy.invalid:3128")).await;
    assert!(detail.starts_with("proxy proxy.invalid:3128 cannot be found"), "{detail}");
    let wrong = http_client(&through("ftp://ada:hunter2@proxy.invalid")).unwrap_err().to_string();
    assert!(wrong.contains("socks5h://") && !wrong.contains("hunter2"), "{wrong}");
}

#[tokio::test]
async fn this_machine_and_the_exceptions_are_reached_without_the_proxy() {
    let (address, mut requests) = serve(vec![answer("200 OK", "", b"here")]).await;
    let closed = format!("http://{}", closed_port().await);
    assert_eq!(ask(&format!("http://localhost:{}/x", address.port()), &through(&closed)).await.unwrap(), "here");
    assert!(requests.recv().await.unwrap().starts_with("GET /x HTTP/1.1\r\n"));
    let mut excepted = through(closed);
    excepted.proxy.no_proxy = vec![".invalid".to_owned()];
    let error = ask(OUTSIDE, &excepted).await.unwrap_err();
    assert!(matches!(&error, NetError::NotSent { detail, .. } if !detail.contains("proxy")), "{error:?}");
}

fn fetching(proxy: SocketAddr) -> FetchOptions {
    let mut options = FetchOptions::default();
    options.proxy.http = Some(format!("http://{proxy}"));
    options
}

#[tokio::test]
async fn what_a_stranger_named_is_fetched_through_the_proxy_and_leads_inwards_no_more_than_without() {
    let (address, mut requests) = serve(vec![answer("200 OK", "", b"picture")]).await;
    let fetcher = Fetcher::new(fetching(address)).unwrap();
    for inwards in ["http://10.0.0.1/x", "http://127.0.0.1/x", "http://localhost/x", "http://[fd00::1]/x"] {
        let error = fetcher.fetch(inwards, HeaderMap::new()).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden { .. }), "{inwards}: {error:?}");
    }
    let fetched = fetcher.fetch(&format!("{OUTSIDE}/x"), HeaderMap::new()).await.unwrap();
    assert_eq!(fetched.bytes().await.unwrap(), b"picture");
    assert!(requests.recv().await.unwrap().starts_with("GET http://api.invalid/x HTTP/1.1\r\n"));
}

#[test]
fn the_settings_are_the_protocols() {
    let settings: ProxySettings = serde_json::from_str(r#"{"https": "http://a:1", "later": true}"#).unwrap();
    assert!(!settings.is_direct() && settings.http.is_none());
}

#[tokio::test]
async fn only_hosts_of_the_list_are_asked_also_after_a_redirect() {
    let away = "HTTP/1.1 302 Found\r\nlocation: http://evil.invalid/x?secret\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (address, mut requests) = serve(vec![answer("200 OK", "", b"picture"), away.into()]).await;
    let mut options = fetching(address);
    options.hosts = Some(vec!["api.invalid".to_owned()]);
    let fetcher = Fetcher::new(options).unwrap();
    assert!(fetcher.fetch(&format!("{OUTSIDE}/x"), HeaderMap::new()).await.is_ok());
    for url in
        [format!("{OUTSIDE}/x"), "http://evil.invalid/y".to_owned(), "http://api.invalid.evil.invalid/".to_owned()]
    {
        let error = fetcher.fetch(&url, HeaderMap::new()).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden { .. }) && error.to_string().contains("list"), "{url}: {error}");
    }
    let seen = [requests.recv().await.unwrap(), requests.recv().await.unwrap()];
    assert!(seen.iter().all(|request| request.contains("http://api.invalid/")), "{seen:?}");
    let mut nothing = fetching(address);
    nothing.hosts = Some(Vec::new());
    assert!(Fetcher::new(nothing).unwrap().fetch(&format!("{OUTSIDE}/x"), HeaderMap::new()).await.is_err());
}
