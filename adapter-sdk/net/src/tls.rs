//! The one crypto provider of this library.

/// Makes `ring` the provider of this library's TLS. May be called any number of times.
///
/// Every shared object carries its own copy of rustls and of this switch, so
/// what the host installed does not count here.
pub fn install_provider() {
    // An error means that a provider is there already, which is all we want.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
