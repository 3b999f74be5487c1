//! The version check between a plugin and this host.
//!
//! Both need the same major version. Within a major version the older side only lacks the additions of the newer one,
//! so a newer plugin runs with a warning, unless its manifest forbids it.

use std::path::Path;

use hermes_adapter_abi::{ABI_VERSION, SDK_VERSION};
use hermes_protocol::Manifest;
use semver::{Version, VersionReq};

use super::LoadError;

/// The longest id of an adapter, in characters (all ASCII).
const ID_CHARS_MAX: usize = 32;

/// Version of the manifest schema.
const MANIFEST_SCHEMA: u32 = 1;

/// Refuses an SDK of another major.
pub(super) fn same_major(path: &Path, sdk: &str) -> Result<(), LoadError> {
    let plugin = parse(path, "sdk", sdk)?;
    let host = host_sdk();
    if plugin.major < host.major {
        return Err(LoadError::OlderMajor {
            path: path.to_owned(),
            plugin: sdk.to_owned(),
            host: SDK_VERSION.to_owned(),
        });
    }
    if plugin.major > host.major {
        return Err(LoadError::NewerMajor {
            path: path.to_owned(),
            plugin: sdk.to_owned(),
            host: SDK_VERSION.to_owned(),
        });
    }
    Ok(())
}

/// Checks a whole manifest. Returns the warning about a newer plugin that may run.
pub(super) fn judge(path: &Path, manifest: &Manifest) -> Result<Option<String>, LoadError> {
    let bad = |why: String| LoadError::BadManifest { path: path.to_owned(), why };
    same_major(path, &manifest.sdk)?;
    if manifest.schema != MANIFEST_SCHEMA {
        return Err(bad(format!("its schema is {}, but this host supports {MANIFEST_SCHEMA}", manifest.schema)));
    }
    if manifest.abi != ABI_VERSION {
        return Err(bad(format!("its abi is {}, but this host supports {ABI_VERSION}", manifest.abi)));
    }
    if !is_id(&manifest.id) {
        return Err(bad(format!(
            "its id {:?} must be a letter a-z followed by at most {} characters of a-z, 0-9 and _",
            manifest.id,
            ID_CHARS_MAX - 1
        )));
    }
    parse(path, "version", &manifest.version)?;
    let plugin = parse(path, "sdk", &manifest.sdk)?;
    let host = host_sdk();
    let newer = (plugin.major, plugin.minor) > (host.major, host.minor);
    if !manifest.requires_host.is_empty() {
        let requires = VersionReq::parse(&manifest.requires_host)
            .map_err(|error| bad(format!("requires_host {:?}: {error}", manifest.requires_host)))?;
        if !requires.matches(&host) {
            let (path, plugin) = (path.to_owned(), manifest.sdk.clone());
            return Err(if newer {
                LoadError::NewerMinor { path, plugin, host: SDK_VERSION.to_owned() }
            } else {
                LoadError::RequiresHost { path, requires: manifest.requires_host.clone(), host: SDK_VERSION.to_owned() }
            });
        }
    }
    Ok(newer.then(|| {
        format!(
            "{} is built with SDK {}, newer than the SDK {SDK_VERSION} of this host: calls that this host lacks are \
             answered as unsupported",
            path.display(),
            manifest.sdk
        )
    }))
}

/// Returns `true` for a well-formed adapter id.
pub(super) fn is_id(id: &str) -> bool {
    id.len() <= ID_CHARS_MAX
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn host_sdk() -> Version {
    Version::parse(SDK_VERSION).expect("cargo only builds packages whose version is semver")
}

fn parse(path: &Path, what: &str, version: &str) -> Result<Version, LoadError> {
    Version::parse(version)
        .map_err(|error| LoadError::BadManifest { path: path.to_owned(), why: format!("{what} {version:?}: {error}") })
}
