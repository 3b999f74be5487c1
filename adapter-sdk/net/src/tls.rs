//! The crypto provider of this library.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Makes `ring` the provider of this library's TLS. May be called any number of times.
///
/// Every shared object has its own copy of rustls, so the provider that the host installed
/// does not apply here.
pub fn install_provider() {
    // An error means that a provider is installed already, which is sufficient.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns a TLS client that trusts the system's certificates, those of a `ca_file`, and each of these exactly as a
/// server's own certificate.
///
/// A typical self-signed certificate declares itself an authority, which may not be a server's certificate; so it
/// is compared with the certificate of the server instead. The server's name is verified in both cases.
pub(crate) fn trusting(own: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let inner = Verifier::new_with_extra_roots(own.iter().cloned(), Arc::clone(&provider))?;
    let verifier = Arc::new(PinnedVerifier { inner, own });
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A verifier that accepts a certificate of the operator's list as the server's own.
#[derive(Debug)]
struct PinnedVerifier {
    inner: Verifier,
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(_) if self.own.iter().any(|own| own == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
