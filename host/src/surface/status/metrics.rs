//! A small registry of counters and gauges, and their Prometheus text.
//!
//! Names come from the code. Label values may come from outside, so the number of series is bounded and every value is
//! escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use crate::engine::operator::StatusJson;

/// The most series. Updates of further ones are counted and left out.
pub const SERIES_MAX: usize = 4_096;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Counter,
    Gauge,
}

/// Label names and values, in the order given.
type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Default)]
struct Series {
    values: BTreeMap<(&'static str, Labels), (Kind, f64)>,
    left_out: u64,
}

/// Counters and gauges by name and labels. Shared by reference.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Series>);

impl Metrics {
    /// Adds `more` to a counter.
    pub fn add(&self, name: &'static str, labels: &[(&'static str, &str)], more: f64) {
        self.update(name, labels, Kind::Counter, |value| value + more);
    }

    /// Sets a gauge.
    pub fn set(&self, name: &'static str, labels: &[(&'static str, &str)], to: f64) {
        self.update(name, labels, Kind::Gauge, |_| to);
    }

    fn update(&self, name: &'static str, labels: &[(&'static str, &str)], kind: Kind, change: impl FnOnce(f64) -> f64) {
        let labels: Labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = series.values.len() >= SERIES_MAX;
        let key = (name, labels);
        if full && !series.values.contains_key(&key) {
            series.left_out += 1;
            return;
        }
        let entry = series.values.entry(key).or_insert((kind, 0.0));
        entry.1 = change(entry.1);
    }

    /// Formats all series as Prometheus text.
    pub fn render(&self) -> String {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        let mut last = "";
        for ((name, labels), (kind, value)) in &series.values {
            if *name != last {
                header(&mut out, name, *kind);
                last = name;
            }
            line(&mut out, name, labels, *value);
        }
        if series.left_out > 0 {
            header(&mut out, "hermes_series_left_out_total", Kind::Counter);
            line(&mut out, "hermes_series_left_out_total", &[], series.left_out as f64);
        }
        out
    }
}

/// Returns the status as gauges.
pub fn of_status(status: &StatusJson) -> String {
    let metrics = Metrics::default();
    metrics.set("hermes_host_info", &[("version", &status.host.version), ("state", &status.host.state)], 1.0);
    metrics.set("hermes_host_start_time_seconds", &[], status.host.since as f64 / 1000.0);
    metrics.set("hermes_host_epoch", &[], status.host.epoch as f64);
    metrics.set("hermes_store_failing", &[], f64::from(u8::from(status.host.trouble.is_some())));
    // A library without a section is not an instance, so it is not expected to be online.
    for adapter in status.adapters.iter().filter(|adapter| adapter.is_instance()) {
        let labels = [("instance", adapter.name.as_str()), ("plugin", &adapter.plugin), ("state", &adapter.state)];
        metrics.set("hermes_adapter_state", &labels, 1.0);
        let labels = [("instance", adapter.name.as_str())];
        metrics.set("hermes_adapter_online", &labels, f64::from(u8::from(adapter.state == "online")));
        metrics.set("hermes_adapter_held", &labels, adapter.held as f64);
        metrics.set("hermes_adapter_restarts", &labels, adapter.restarts as f64);
        if let Some(proven) = adapter.last_proven {
            metrics.set("hermes_adapter_last_proven_seconds", &labels, proven as f64 / 1000.0);
        }
    }
    let queues = &status.queues;
    for (queue, waiting) in [
        ("inbox", queues.inbox),
        ("turns", queues.turns),
        ("outbox", queues.outbox),
        ("handoffs", queues.handoffs),
        ("dead", queues.dead),
    ] {
        metrics.set("hermes_queue_waiting", &[("queue", queue)], waiting as f64);
    }
    let agent = &status.agent;
    metrics.set("hermes_agent_failing", &[], f64::from(u8::from(agent.is_failing())));
    metrics.set("hermes_agent_consecutive_failures", &[], agent.consecutive_failures as f64);
    if let Some(since) = agent.since {
        metrics.set("hermes_agent_failing_since_seconds", &[], since as f64 / 1000.0);
    }
    if let Some(at) = agent.last_answer {
        metrics.set("hermes_agent_last_answer_seconds", &[], at as f64 / 1000.0);
    }
    if let Some(error) = &agent.last_error {
        metrics.set("hermes_agent_last_failure_seconds", &[("kind", &error.kind)], error.at as f64 / 1000.0);
    }
    metrics.add("hermes_turns_answered_total", &[], agent.answered as f64);
    for (kind, count) in &agent.failures {
        metrics.add("hermes_turn_failures_total", &[("kind", kind)], *count as f64);
    }
    metrics.set("hermes_sessions", &[("state", "open")], status.sessions.open as f64);
    metrics.set("hermes_sessions", &[("state", "running")], status.sessions.running as f64);
    metrics.render()
}

fn header(out: &mut String, name: &str, kind: Kind) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    // Writing into a `String` cannot fail.
    let _ = writeln!(out, "# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &[(&'static str, String)], value: f64) {
    out.push_str(name);
    if !labels.is_empty() {
        let pairs: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape(value))).collect();
        // Writing into a `String` cannot fail.
        let _ = write!(out, "{{{}}}", pairs.join(","));
    }
    let _ = writeln!(out, " {value}");
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_gauges_are_set() {
        let metrics = Metrics::default();
        metrics.add("hermes_events_total", &[("instance", "a")], 1.0);
        metrics.add("hermes_events_total", &[("instance", "a")], 2.0);
        metrics.set("hermes_depth", &[], 4.5);
        metrics.set("hermes_depth", &[], 0.5);
        assert_eq!(
            metrics.render(),
            "# TYPE hermes_depth gauge\nhermes_depth 0.5\n\
             # TYPE hermes_events_total counter\nhermes_events_total{instance=\"a\"} 3\n"
        );
    }

    #[test]
    fn a_label_from_outside_cannot_forge_a_series() {
        let metrics = Metrics::default();
        metrics.set("x", &[("name", "a\"} 1\ny{b=\"\\")], 1.0);
        assert_eq!(metrics.render(), "# TYPE x gauge\nx{name=\"a\\\"} 1\\ny{b=\\\"\\\\\"} 1\n");
    }

    #[test]
    fn the_number_of_series_is_bounded_and_what_is_left_out_is_counted() {
        let metrics = Metrics::default();
        for n in 0..SERIES_MAX + 10 {
            metrics.set("x", &[("n", &n.to_string())], 1.0);
        }
        metrics.set("x", &[("n", "0")], 7.0);
        let text = metrics.render();
        assert_eq!(text.lines().filter(|line| line.starts_with("x{")).count(), SERIES_MAX);
        assert!(text.contains("x{n=\"0\"} 7\n") && text.ends_with("hermes_series_left_out_total 10\n"));
    }
}
