//! The state of the host for `status --json`, the page and the metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{App, RunError};
use crate::engine::messages::{Census, Control, HostEvent};
use crate::engine::operator::{AgentStatus, DeadChat, HostStatus, QueueStatus, SessionStatus, StatusJson};
use crate::surface::status;
use crate::surface::status::{Metrics, StatusSource};
use hermes_config::Config;

/// Opens the status listener if it is configured.
pub async fn bind(config: &Config) -> Result<Option<TcpListener>, RunError> {
    match config.host.status {
        Some(address) => Ok(Some(status::bind(address).await?)),
        None => Ok(None),
    }
}

/// Serves the status listener.
pub fn serve(app: &Arc<App>, listener: Option<TcpListener>) -> JoinHandle<()> {
    let Some(listener) = listener else { return tokio::spawn(async {}) };
    let clients_max = app.host.live().config.limits.status_clients_max;
    let source: Arc<dyn StatusSource> = Arc::new(Source(Arc::clone(app)));
    tokio::spawn(status::serve(listener, source, app.host.clock.clone(), clients_max))
}

struct Source(Arc<App>);

impl StatusSource for Source {
    fn status(&self) -> BoxFuture<'static, StatusJson> {
        let app = Arc::clone(&self.0);
        Box::pin(async move { app.status().await })
    }

    fn metrics(&self) -> String {
        let metrics = Metrics::default();
        let (counts, written) = (&self.0.host.counts, self.0.host.store.stats());
        let whole = |count: u64| u32::try_from(count).map_or(f64::MAX, f64::from);
        metrics.add("hermes_events_total", &[], whole(counts.events.load(Ordering::Relaxed)));
        metrics.add("hermes_events_refused_total", &[], whole(counts.events_refused.load(Ordering::Relaxed)));
        metrics.add("hermes_parts_delivered_total", &[], whole(counts.delivered.load(Ordering::Relaxed)));
        metrics.add("hermes_store_requests_total", &[], whole(written.requests));
        metrics.add("hermes_store_commits_total", &[], whole(written.commits));
        metrics.add("hermes_store_failures_total", &[], whole(written.failures));
        metrics.render()
    }
}

impl App {
    /// Collects the status from the dispatcher, the adapters and the store.
    pub(crate) async fn status(&self) -> StatusJson {
        let census = self.census().await;
        let counts = self.host.store.counts().await;
        let trouble = self.host.store.trouble().await.map(|error| error.to_string());
        let live = self.host.live();
        let config = &live.config;
        let mut warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        let counts = counts.unwrap_or_else(|error| {
            warnings.push(error.to_string());
            hermes_store::QueueCounts::default()
        });
        warnings.extend(
            trouble.iter().map(|trouble| format!("the store cannot write, so no messages are accepted: {trouble}")),
        );
        warnings.extend(self.standing().warning(self.host.now_ms()));
        self.adapters.look_again().await;
        let adapters = self.adapters.statuses().into_iter().map(|mut status| {
            if let Some(reason) = self.standing().reason(&status) {
                status.reason = Some(reason);
            }
            status.held = census.held.get(&status.name).copied().unwrap_or_default();
            let proxy = config.own_proxy_line(&status.name);
            crate::engine::operator::AdapterStatus { proxy, ..status.into() }
        });
        let shown = census.dead.len();
        let running = self.host.counts.turns_running.load(Ordering::Relaxed);
        StatusJson {
            host: HostStatus {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                since: self.since_ms,
                state: (*self.state.borrow()).to_owned(),
                home: config.home.display().to_string(),
                config: config.file.as_ref().map(|file| file.display().to_string()),
                epoch: self.host.epoch.0,
                proxy: config.proxy_line(),
                trouble,
            },
            adapters: adapters.collect(),
            queues: QueueStatus {
                inbox: counts.inbox,
                turns: counts.turns,
                outbox: counts.outbox,
                handoffs: counts.handoffs,
                dead: counts.dead,
            },
            sessions: SessionStatus {
                open: counts.sessions_open,
                running: u64::try_from(running).unwrap_or_default(),
                total: counts.sessions,
            },
            agent: AgentStatus::new(
                self.host.runtime.name(),
                self.host.runtime.models().into_iter().next(),
                self.host.health.snapshot(),
                self.host.now_ms(),
            ),
            dead_chats: census.dead.into_iter().map(DeadChat::from).collect(),
            dead_chats_more: census.dead_chats.saturating_sub(shown),
            warnings,
        }
    }

    /// Returns the counts of the dispatcher. Its answer proves that it makes progress.
    pub(crate) async fn census(&self) -> Census {
        let (reply, census) = oneshot::channel();
        self.host.tell(HostEvent::control(Control::Census(reply))).await;
        census.await.unwrap_or_default()
    }
}
