//! Outgoing files without a path on this machine: fetched from the public network, or unpacked from inline data.
//!
//! An unknown sender may have chosen the address that an agent names. Every address is therefore fetched by the one
//! function with the rules for this (`hermes-adapter-net::fetch`): no address of this machine or its network, no other
//! scheme, bounded in size and time.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermes_adapter_net::fetch::{FetchError, FetchOptions, Fetched, Fetcher};
use hermes_adapter_net::proxy::ProxySettings;
use hermes_adapter_net::reqwest::Url;
use hermes_adapter_net::reqwest::header::HeaderMap;
use hermes_protocol::OutMedia;
use tokio::io::AsyncWriteExt;

use super::{Media, kind, private_folder};
use crate::engine::attachments::lend::{OutError, shown_name};

/// Timeout of the transfer of one file.
const FETCH: Duration = Duration::from_secs(20);

/// The rules for a file that an answer names by its address.
#[derive(Clone, Debug, Default)]
pub struct FetchRules {
    /// The allowed hosts: `[session] media_hosts`.
    pub hosts: Vec<String>,
    /// The proxies of the host.
    pub proxy: ProxySettings,
}

impl Media {
    /// Fetches a file for `instance`; `bytes_max` is the platform's bound, 0 for none.
    ///
    /// # Errors
    ///
    /// Fails if the address is not public, the server does not deliver the file, or the file is too large.
    pub async fn fetch(
        &self,
        instance: &str,
        address: &str,
        bytes_max: u64,
        rules: FetchRules,
    ) -> Result<OutMedia, OutError> {
        self.fetch_from(instance, address, bytes_max, rules, Vec::new()).await
    }

    /// Fetches a file like [`Media::fetch`], from origins anywhere.
    pub(super) async fn fetch_from(
        &self,
        instance: &str,
        address: &str,
        bytes_max: u64,
        rules: FetchRules,
        origins: Vec<Url>,
    ) -> Result<OutMedia, OutError> {
        let name = name_in(address);
        let bytes_max = self.bound(bytes_max);
        let mut options = FetchOptions::with_origins(origins);
        options.bytes_max = bytes_max;
        options.deadline = FETCH;
        options.hosts = Some(rules.hosts);
        options.proxy = rules.proxy;
        let failed = |error| match error {
            FetchError::TooLarge { .. } => OutError::TooLarge { name: name.clone(), size: None, bytes_max },
            source => OutError::NotFetched { name: name.clone(), source },
        };
        let fetcher = Fetcher::new(options).map_err(|error| OutError::NoCopy {
            folder: self.outgoing(instance),
            source: std::io::Error::other(error),
        })?;
        let fetched = fetcher.fetch(address, HeaderMap::new()).await.map_err(failed)?;
        let told = fetched.content_type().and_then(kind::named);
        let (id, folder) = (self.new_id(), self.outgoing(instance));
        let path = folder.join(&id);
        let size = match self.keep(fetched, &folder, &path).await {
            Ok(size) => size,
            Err(kept) => {
                // If the removal fails, the sweep removes the rest.
                let _ = tokio::fs::remove_file(&path).await;
                return Err(kept.unwrap_or_else(failed));
            }
        };
        let mime = match (kind::of_name(&name), told) {
            ("application/octet-stream", Some(told)) => told,
            (known, _) => known.to_owned(),
        };
        Ok(OutMedia::new(id, path.to_string_lossy(), mime, name, size))
    }

    /// Writes a fetched file; the error comes from the disk or from the network.
    async fn keep(&self, mut fetched: Fetched, folder: &Path, path: &Path) -> Result<u64, Kept> {
        let no_copy = |source| Kept::Disk(OutError::NoCopy { folder: folder.to_owned(), source });
        private_folder(folder).map_err(no_copy)?;
        let mut file = tokio::fs::File::options();
        let mut file = file.write(true).create_new(true).mode(0o600).open(path).await.map_err(no_copy)?;
        let mut size = 0;
        while let Some(piece) = fetched.chunk().await.map_err(Kept::Net)? {
            file.write_all(&piece).await.map_err(no_copy)?;
            size += piece.len() as u64;
        }
        file.flush().await.map_err(no_copy)?;
        Ok(size)
    }

    /// Unpacks a file that is written as `<mime>;base64,<content>`.
    ///
    /// # Errors
    ///
    /// Fails if the data has another form, or is too large.
    pub async fn unpack(&self, instance: &str, data: &str, bytes_max: u64) -> Result<OutMedia, OutError> {
        let unreadable = |why: &str| OutError::NotData { why: why.to_owned() };
        let (head, content) = data.split_once(',').ok_or_else(|| unreadable("the comma is missing"))?;
        let mime = head.strip_suffix(";base64").ok_or_else(|| unreadable("the content is not base64"))?;
        let mime = kind::named(mime).unwrap_or_else(|| "application/octet-stream".to_owned());
        let name = format!("file{}", kind::ending_of(&mime));
        let bytes_max = self.bound(bytes_max);
        if content.len() as u64 / 4 * 3 > bytes_max {
            return Err(OutError::TooLarge { name, size: Some(content.len() as u64 / 4 * 3), bytes_max });
        }
        let bytes = STANDARD.decode(content.trim()).map_err(|error| unreadable(&error.to_string()))?;
        let (id, folder) = (self.new_id(), self.outgoing(instance));
        let (path, size) = (folder.join(&id), bytes.len() as u64);
        let to = path.clone();
        let written = tokio::task::spawn_blocking(move || {
            private_folder(to.parent().unwrap_or(Path::new("/")))?;
            write_new(&to, &bytes)
        });
        let no_copy = |source| OutError::NoCopy { folder: folder.clone(), source };
        written.await.map_err(|error| no_copy(std::io::Error::other(error)))?.map_err(no_copy)?;
        Ok(OutMedia::new(id, path.to_string_lossy(), mime, name, size))
    }
}

/// The reason for which a fetched file is not kept.
enum Kept {
    Disk(OutError),
    Net(FetchError),
}

impl Kept {
    fn unwrap_or_else(self, net: impl FnOnce(FetchError) -> OutError) -> OutError {
        match self {
            Self::Disk(error) => error,
            Self::Net(error) => net(error),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Returns the file name in an address, which must not be trusted as a path.
fn name_in(address: &str) -> String {
    let path = Url::parse(address).map(|url| url.path().to_owned()).unwrap_or_default();
    let last = path.rsplit('/').find(|step| !step.is_empty()).unwrap_or("file");
    shown_name(Path::new(last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use hermes_system::clock::SystemClock;
    use hermes_system::rng::SystemChance;

    /// Starts a server on this machine that answers every request with `body`.
    async fn server(body: &'static str, head: &'static str) -> Url {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 2048];
                // One read holds the whole request of a test; its content does not matter.
                let _ = tokio::io::AsyncReadExt::read(&mut socket, &mut request).await;
                let answer = format!("HTTP/1.1 200 OK\r\n{head}Connection: close\r\n\r\n{body}");
                // A client that has read enough may disconnect.
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        Url::parse(&format!("http://{address}")).unwrap()
    }

    fn media(home: &tempfile::TempDir) -> Media {
        Media::new(home.path().join("media"), Arc::new(SystemChance), Arc::new(SystemClock))
    }

    fn any_host() -> FetchRules {
        FetchRules { hosts: vec!["*".to_owned()], ..FetchRules::default() }
    }

    #[tokio::test]
    async fn no_host_is_asked_that_the_operator_did_not_list() {
        let home = tempfile::tempdir().unwrap();
        let refused = media(&home).fetch("chat", "https://example.invalid/x?secret", 0, FetchRules::default()).await;
        let Err(OutError::NotFetched { source: FetchError::Forbidden { origin, why }, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(origin, "https://example.invalid");
        assert!(why.contains("list of allowed hosts"), "{why}");
    }

    fn left(home: &tempfile::TempDir) -> usize {
        std::fs::read_dir(home.path().join("media/chat/out")).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn an_address_that_leads_inwards_is_not_fetched() {
        let home = tempfile::tempdir().unwrap();
        let inside = server("secret", "").await;
        for address in
            [inside.as_str(), "http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://localhost:1/"]
        {
            let refused = media(&home).fetch("chat", address, 0, any_host()).await;
            let Err(OutError::NotFetched { source: FetchError::Forbidden { .. }, .. }) = refused else {
                panic!("{address}: {refused:?}")
            };
        }
        assert_eq!(left(&home), 0);
    }

    #[tokio::test]
    async fn a_fetched_file_has_the_name_of_its_address_and_the_type_that_the_server_tells() {
        let home = tempfile::tempdir().unwrap();
        let origin = server("abc", "Content-Type: image/png; x=y\r\n").await;
        let address = origin.join("/a/../pictures/cat?x=../../etc/passwd").unwrap();
        let lent =
            media(&home).fetch_from("chat", address.as_str(), 3, FetchRules::default(), vec![origin]).await.unwrap();
        assert_eq!((lent.name.as_str(), lent.mime.as_str(), lent.size), ("cat", "image/png", 3));
        assert_eq!(std::fs::read(&lent.path).unwrap(), b"abc");
        assert!(Path::new(&lent.path).starts_with(home.path().join("media/chat/out")));
    }

    #[tokio::test]
    async fn a_file_that_is_too_large_is_not_kept() {
        let home = tempfile::tempdir().unwrap();
        for head in ["Content-Length: 3\r\n", ""] {
            let origin = server("abc", head).await;
            let refused =
                media(&home).fetch_from("chat", origin.as_str(), 2, FetchRules::default(), vec![origin.clone()]).await;
            assert!(matches!(refused, Err(OutError::TooLarge { bytes_max: 2, .. })), "{refused:?}");
        }
        assert_eq!(left(&home), 0);
    }

    #[tokio::test]
    async fn a_file_that_is_written_out_is_unpacked_within_the_bound() {
        let home = tempfile::tempdir().unwrap();
        let lent = media(&home).unpack("chat", "image/png;base64,YWJj", 3).await.unwrap();
        assert_eq!((lent.name.as_str(), lent.mime.as_str(), lent.size), ("file.png", "image/png", 3));
        assert_eq!(std::fs::read(&lent.path).unwrap(), b"abc");
        let large = media(&home).unpack("chat", "image/png;base64,YWJjYWJj", 3).await;
        assert!(matches!(large, Err(OutError::TooLarge { .. })), "{large:?}");
        for odd in ["text/plain,abc", "image/png;base64", "image/png;base64,%%%"] {
            let refused = media(&home).unpack("chat", odd, 0).await;
            assert!(matches!(refused, Err(OutError::NotData { .. })), "{odd}: {refused:?}");
        }
    }
}
