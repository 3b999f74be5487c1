//! Tests with a server that has a typical self-signed certificate.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use super::*;

const CERTIFICATE: &str = include_str!("cert.pem");
const OTHER: &str = include_str!("other.pem");

/// Serves over TLS with a certificate that declares itself an authority, as created by `openssl req -x509`.
async fn self_signed() -> SocketAddr {
    let chain = CertificateDer::pem_slice_iter(CERTIFICATE.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate disconnects.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer("200 OK", "", b"here")).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn ask(url: &str, trusted: Option<&str>) -> Result<Vec<u8>, NetError> {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ClientOptions::default();
    if let Some(trusted) = trusted {
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, trusted).unwrap();
        options.ca_file = Some(path);
    }
    let response = http_client(&options).unwrap().get(url).send().await?;
    Ok(read_bytes(response, 100).await.unwrap())
}

#[tokio::test]
async fn a_self_signed_certificate_of_the_ca_file_is_that_servers_own_and_nobody_elses() {
    let address = self_signed().await;
    let both = format!("{OTHER}{CERTIFICATE}");
    for trusted in [CERTIFICATE, &both] {
        assert_eq!(ask(&format!("https://{address}/"), Some(trusted)).await.unwrap(), b"here");
        assert_eq!(ask(&format!("https://localhost:{}/", address.port()), Some(trusted)).await.unwrap(), b"here");
    }
    let refused = |url: String, trusted: Option<&'static str>| async move {
        match ask(&url, trusted).await.unwrap_err() {
            NetError::NotSent { detail, .. } => detail,
            other => panic!("{other:?}"),
        }
    };
    for trusted in [None, Some(OTHER)] {
        let detail = refused(format!("https://{address}/"), trusted).await;
        assert!(detail.contains("set `ca_file`"), "{detail}");
    }
    // Another name of this machine, which is missing in the certificate.
    let detail = refused(format!("https://127.0.0.2:{}/", address.port()), Some(CERTIFICATE)).await;
    assert!(detail.contains("certificate") && detail.contains("subjectAltName"), "{detail}");
}
