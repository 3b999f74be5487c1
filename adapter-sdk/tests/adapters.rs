//! The adapters under test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::test_adapter;

/// An adapter controlled by its messages.
pub struct Puppet {
    host: Host,
    config: PuppetConfig,
    dropped: Arc<AtomicUsize>,
}

/// Configuration of [`Puppet`].
#[derive(AdapterConfig, Clone, Debug)]
pub struct PuppetConfig {
    /// The behaviour of `new`: `panic` or `block`; or of `drop`: `haunt`.
    #[serde(default)]
    pub at_birth: String,
    /// A secret.
    #[serde(default)]
    pub token: String,
    /// A nested table.
    #[serde(default)]
    pub link: LinkConfig,
}

/// A nested table.
#[derive(AdapterConfig, Clone, Debug, Default)]
pub struct LinkConfig {
    /// The wait in milliseconds.
    #[serde(default)]
    pub wait_ms: u32,
    /// The tone of the answers.
    #[serde(default)]
    pub tone: Tone,
    /// Secret words.
    #[serde(default)]
    #[serde(rename = "words")]
    #[schemars(extend("writeOnly" = true))]
    pub _words: Vec<String>,
}

/// A tone.
#[derive(AdapterConfig, Clone, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// The usual tone.
    #[default]
    Plain,
    /// A repeated answer.
    Loud {
        /// The number of repetitions.
        times: u8,
    },
}

/// A counter of its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A panic payload that panics again when it is dropped.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        panic!("and once more");
    }
}

/// A value that panics when it is dropped, unless a panic is in progress.
struct Rude;

impl Drop for Rude {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped rudely");
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        assert!(self.config.at_birth != "haunt", "the puppet haunts");
    }
}

impl Adapter for Puppet {
    const MANIFEST: Manifest = manifest! {
        id: "puppet",
        label: "Puppet \"P\"\n",
        version: "0.3.1",
        transport: "long-poll",
        threads: true,
        text: { limit: 4096, unit: utf16, dialect: "my_own" },
        delivery: reconcilable,
        media: { in: true, in_bytes_max: 20_000_000 },
        liveness: { interval_s: 60 },
        env: [{ name: "PUPPET_TOKEN", key: "token", enables: true }],
        secrets: ["token"],
        uses: ["turns.stop", "sessions.list"],
        replay: offset,
        platform_hint: concat!("Speaks", " ", "softly."),
    };
    type Config = PuppetConfig;

    fn check(config: &PuppetConfig) -> Result<(), String> {
        match config.at_birth.as_str() {
            "never" => Err("`at_birth` is \"never\"; leave it out".to_owned()),
            "unsure" => panic!("who knows"),
            _ => Ok(()),
        }
    }

    fn new(config: PuppetConfig, host: Host) -> Self {
        match config.at_birth.as_str() {
            "panic" => panic!("stillborn"),
            "block" => std::thread::sleep(Duration::from_secs(3)), // misbehaves
            _ => {}
        }
        tracing::info!(instance = host.instance(), "born");
        Self { host, config, dropped: Arc::default() }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        match self.config.link.wait_ms {
            0 => Ok(()),
            wait => Err(ConnectError::retry_after_ms("not yet", u64::from(wait))),
        }
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        match message.text.as_str() {
            "panic" => panic!("boom {}", message.part),
            "spiteful" => std::panic::panic_any(Spiteful),
            "panic in a task" => self.host.spawn(async { panic!("boom in a task") }),
            "hang" => {
                let _counted = Counted(Arc::clone(&self.dropped));
                self.host.announce("hanging", "");
                std::future::pending::<()>().await;
            }
            "hang rudely" => {
                let _rude = Rude;
                self.host.announce("hanging", "");
                std::future::pending::<()>().await;
            }
            "log elsewhere" => {
                let logged = tokio::task::spawn_blocking(|| tracing::info!("from the pool"));
                logged.await.expect("it does not panic");
            }
            "spin" => loop {
                self.host.announce("spinning", "");
                std::thread::sleep(Duration::from_millis(5)); // misbehaves
                if self.host.is_cancelled() && self.config.link.wait_ms == 0 {
                    // Long after every deadline of the test, so that the test process exits cleanly.
                    std::thread::sleep(Duration::from_millis(600)); // misbehaves
                    break;
                }
            },
            "log" => {
                let span = tracing::info_span!("sending", part = message.part);
                span.in_scope(|| tracing::warn!(target: "puppet::net", tries = 3, ok = false, "slow link"));
                tracing::trace!("chatter");
            }
            "emit" => {
                let event = Event::message("m:1:1", message.chat, Sender::new("7"), "hello");
                return match self.host.emit(&event).await {
                    Ok(emitted) => SendOutcome::unknown(serde_json::to_string(&emitted).expect("a reply is JSON")),
                    Err(error) => SendOutcome::unknown(error.code),
                };
            }
            "remember" => {
                let before = self.host.kv().get("n").await.expect("kv answers").unwrap_or_default();
                self.host.kv().set("n", &format!("{before}x")).await.expect("kv answers");
                return SendOutcome::delivered(before, 0);
            }
            "folder" => {
                let folder = self.host.data_dir().map(|folder| folder.display().to_string());
                return SendOutcome::unknown(folder.unwrap_or_default());
            }
            "ask" => {
                let answer: Result<serde_json::Value, CallError> =
                    self.host.call("turns.stop", &serde_json::json!({ "inbox_id": 7 })).await;
                return SendOutcome::unknown(answer.map_or_else(|error| error.code, |answer| answer.to_string()));
            }
            "token" => return SendOutcome::delivered(self.config.token.len().to_string(), 0),
            "drops" => return SendOutcome::delivered(self.dropped.load(Ordering::SeqCst).to_string(), 0),
            _ => {}
        }
        let text = match self.config.link.tone {
            Tone::Plain => message.text,
            Tone::Loud { times } => message.text.repeat(usize::from(times)),
        };
        SendOutcome::delivered(text, 0)
    }
}

impl Edit for Puppet {
    async fn edit(&self, message: SentMessage, outgoing: Outgoing) -> SendOutcome {
        SendOutcome::delivered(format!("{}={}", message.id, outgoing.text), 0)
    }
}

impl Reconcile for Puppet {
    async fn lookup(&self, key: String, _: Chat) -> Result<LookupReply, CallError> {
        if key == "gone" { Ok(LookupReply::Absent) } else { Err(CallError::new("unavailable", "ask later")) }
    }
}

impl ResolveTarget for Puppet {
    async fn resolve_target(&self, target: String) -> Result<Option<Chat>, CallError> {
        Ok(target.strip_prefix('@').map(Chat::dm))
    }
}

impl Fetch for Puppet {
    async fn fetch(&self, file: Attachment, within: Duration) -> Attachment {
        match file.fetch.as_deref() {
            Some("gone") => file.not_fetched("the platform has it no more"),
            _ => file.fetched(format!("media within {} ms", within.as_millis()), 3),
        }
    }
}

test_adapter!(Puppet: Edit + Fetch + Reconcile + ResolveTarget);

/// Returns a text for chat 1.
pub fn text(text: &str) -> Outgoing {
    Outgoing::text(Chat::dm("1"), text)
}
