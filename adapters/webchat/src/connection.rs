//! The port and the token of the page.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_adapter_net::port;
use hermes_adapter_net::serve::{self, Bounds};
use hermes_adapter_sdk::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Config;
use crate::door::Door;
use crate::live::Live;
use crate::log::Log;
use crate::sessions::{self, Sessions};

const PORT: u16 = 8643;
/// The ports to try if the default port is taken. The ports next to it belong to other adapters.
const PORTS_BESIDE: std::ops::Range<u16> = 8645..8665;
/// The interval at which the adapter fetches its own page to prove that it is served.
const PROVE_EVERY: Duration = Duration::from_secs(20);
const PROVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The limits of the port. A page listens on one connection for hours and reconnects after that.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    head: Duration::from_secs(30),
    lifetime: Duration::from_secs(12 * 60 * 60),
    grace: Duration::from_secs(60),
};
const TOKEN_CHARS_MIN: usize = 16;
/// The maximum number of uploaded files that are not sent yet.
const UPLOADS_MAX: usize = 64;

/// An uploaded file that waits for its message.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) conversation: String,
    pub(crate) attachment: Attachment,
    pub(crate) path: String,
}

/// One instance: its configuration, its port and its conversations.
pub(crate) struct Connection {
    config: Config,
    pub(crate) host: Host,
    pub(crate) log: Log,
    pub(crate) live: Live,
    pub(crate) sessions: Sessions,
    /// A random id of this run of the adapter, by which the self-check recognizes its own process.
    pub(crate) life: String,
    state: Mutex<State>,
    /// The number of calls of `serve` and `close`. Streams of an earlier call end.
    generation: AtomicU64,
    uploads: Mutex<BTreeMap<String, Upload>>,
}

#[derive(Default)]
struct State {
    listener: Option<TcpListener>,
    address: Option<SocketAddr>,
    door: Option<Arc<Door>>,
}

impl Connection {
    pub(crate) fn new(config: Config, host: Host) -> Self {
        let life = random_word();
        Self {
            config,
            log: Log::new(host.clone()),
            host,
            live: Live::new(life.clone()),
            sessions: Sessions::default(),
            life,
            state: Mutex::default(),
            generation: AtomicU64::new(0),
            uploads: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn door(&self) -> Option<Arc<Door>> {
        self.state().door.clone()
    }

    pub(crate) fn upload_bytes_max(&self) -> u64 {
        self.config.upload_bytes_max
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Binds the port, loads the conversations, and announces the address of the page.
    pub(crate) async fn open(&self) -> Result<(), ConnectError> {
        let wanted = wanted_address(&self.config)
            .map_err(|why| ConnectError::fatal(why, "correct the section of the instance"))?;
        let token = self.token().await?;
        self.log.load().await.map_err(|error| ConnectError::retry(error.to_string()))?;
        let held = self.state().listener.take();
        let listener = match held {
            Some(listener) => listener,
            None => self.bind(wanted).await?,
        };
        let address = listener
            .local_addr()
            .map_err(|error| ConnectError::retry(format!("the port is not available any more: {error}")))?;
        let door = Door::new(address, &self.config.allowed_hosts, token.clone(), self.host.instance());
        let name = match self.config.allowed_hosts.first() {
            Some(name) if !address.ip().is_loopback() => name.clone(),
            _ => SocketAddr::new(reachable(address.ip()), address.port()).to_string(),
        };
        *self.state() = State { listener: Some(listener), address: Some(address), door: Some(Arc::new(door)) };
        self.host.announce("chat", format!("http://{name}/?token={token}"));
        Ok(())
    }

    /// Serves the page until the instance ends.
    pub(crate) async fn serve(link: &Arc<Self>) -> Result<(), ConnectError> {
        let Some(listener) = link.state().listener.take() else {
            return Err(ConnectError::retry("the port is not bound"));
        };
        let _closing = Closing::begin(link);
        let prove = async {
            loop {
                tokio::time::sleep(PROVE_EVERY).await;
                if let Err(error) = link.prove().await {
                    return error;
                }
            }
        };
        link.host.proved();
        let asked = Arc::clone(link);
        link.host.spawn(async move { asked.ask_commands().await });
        link.sessions.stir();
        tokio::select! {
            error = serve::serve(listener, crate::api::router(Arc::clone(link)), BOUNDS) => Err(error),
            error = prove => Err(ConnectError::retry(error.to_string())),
            () = sessions::keep_true(link) => Ok(()),
            () = link.host.cancelled() => Ok(()),
        }
    }

    /// Requests the slash commands. Commands that the host reports by itself are accepted, too.
    pub(crate) async fn ask_commands(&self) {
        if let Some(commands) = sessions::commands(self).await {
            self.live.set_commands(commands);
        }
    }

    /// Releases the port.
    pub(crate) fn close(&self) {
        *self.state() = State::default();
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.live.wake();
    }

    /// Fetches the page's health check as a browser does.
    pub(crate) async fn prove(&self) -> Result<(), CallError> {
        let unavailable = |why: String| CallError::new("unavailable", why);
        let address = self.state().address.ok_or_else(|| unavailable("the page is not served".to_owned()))?;
        let target = SocketAddr::new(reachable(address.ip()), address.port());
        let fetch = async {
            let mut stream = TcpStream::connect(target).await?;
            let request = format!("GET /healthz HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.take(4096).read_to_end(&mut answer).await?;
            io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        let answer = tokio::time::timeout(PROVE_TIMEOUT, fetch)
            .await
            .map_err(|_| unavailable(format!("the page at {target} did not answer in {} s", PROVE_TIMEOUT.as_secs())))?
            .map_err(|error| unavailable(format!("the page at {target} is unreachable: {error}")))?;
        if !answer.contains(&self.life) {
            return Err(unavailable(format!("another program answers at {target}")));
        }
        self.host.proved();
        Ok(())
    }

    pub(crate) fn keep_upload(&self, upload: Upload) {
        let Some(id) = upload.attachment.media.clone() else { return };
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        while uploads.len() >= UPLOADS_MAX {
            uploads.pop_first();
        }
        uploads.insert(id, upload);
    }

    /// Returns the uploads of a conversation and keeps them, because the message may be sent again. `None` if the
    /// file of an upload has expired.
    pub(crate) fn uploads(&self, conversation: &str, ids: &[String]) -> Option<Vec<Upload>> {
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = |upload: &Upload| upload.conversation == conversation && Path::new(&upload.path).exists();
        ids.iter().map(|id| uploads.get(id).filter(|upload| is_one(upload)).cloned()).collect()
    }

    async fn bind(&self, wanted: Option<SocketAddr>) -> Result<TcpListener, ConnectError> {
        if let Some(address) = wanted {
            return TcpListener::bind(address).await.map_err(|error| port::refused("listen", address, &error));
        }
        let mut last = None;
        for port in std::iter::once(PORT).chain(PORTS_BESIDE) {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => return Ok(listener),
                Err(error) => last = Some(error),
            }
        }
        let error = last.map(|error| error.to_string()).unwrap_or_default();
        Err(ConnectError::retry(format!("no free port found, starting at {PORT} ({error}); set `listen`")))
    }

    async fn token(&self) -> Result<String, ConnectError> {
        if let Some(token) = &self.config.token {
            return Ok(token.clone());
        }
        let retry = |error: CallError| ConnectError::retry(format!("the stored token cannot be read: {error}"));
        if let Some(token) = self.host.kv().get("token").await.map_err(retry)? {
            return Ok(token);
        }
        let token = random_word() + &random_word();
        self.host.kv().set("token", &token).await.map_err(retry)?;
        Ok(token)
    }
}

/// Checks the settings that can be checked before the port is bound.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    wanted_address(config)?;
    if let Some(host) = config.allowed_hosts.iter().find(|host| host.is_empty() || host.contains(['/', ' '])) {
        return Err(format!("`allowed_hosts` contains {host:?}; use only the host name, like \"chat.example.org\""));
    }
    let is_good = |token: &String| {
        let simple = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        token.len() >= TOKEN_CHARS_MIN && simple
    };
    if !config.token.as_ref().is_none_or(is_good) {
        return Err(format!(
            "`token` is shorter than {TOKEN_CHARS_MIN} characters or contains characters other than letters, digits \
             and -_.~; use a longer one, or remove the key to generate one"
        ));
    }
    Ok(())
}

/// Returns the configured address of the page; `None` for the default ports.
fn wanted_address(config: &Config) -> Result<Option<SocketAddr>, String> {
    let Some(listen) = &config.listen else { return Ok(None) };
    let address: SocketAddr = listen
        .parse()
        .map_err(|_| format!("`listen` is {listen:?}; use an address and a port, like \"127.0.0.1:8643\""))?;
    if !address.ip().is_loopback() && config.allowed_hosts.is_empty() {
        return Err(format!(
            "`listen` {address} is reachable from other machines, but `allowed_hosts` is empty; set `allowed_hosts` \
             to the host names of the page, or listen on 127.0.0.1"
        ));
    }
    Ok(Some(address))
}

/// A guard that ends the streams of one call of `serve`.
struct Closing<'l>(&'l Connection);

impl<'l> Closing<'l> {
    fn begin(link: &'l Connection) -> Self {
        link.generation.fetch_add(1, Ordering::SeqCst);
        Self(link)
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.generation.fetch_add(1, Ordering::SeqCst);
        self.0.live.wake();
    }
}

fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Returns 128 random bits in hexadecimal.
pub(crate) fn random_word() -> String {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it is up");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
