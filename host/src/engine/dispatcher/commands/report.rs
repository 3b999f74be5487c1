//! `/debug`: the first report for a diagnosis. Bounded, and without secrets: the configuration masks its own, and the
//! masker of the log covers the whole report.

use std::sync::atomic::Ordering;

use super::Deed;
use crate::engine::dispatcher::Dispatcher;

/// The longest report, in bytes.
const REPORT_BYTES_MAX: usize = 8 << 10;
/// The longest value of a key that is shown, in characters.
const VALUE_CHARS_MAX: usize = 120;

impl Dispatcher {
    /// `/debug`: returns the report to users who may see it.
    pub(super) fn debug(&mut self) -> Deed {
        let live = self.host.live();
        let mut report = live.masker.mask(self.report()).into_owned();
        if report.len() > REPORT_BYTES_MAX {
            let end = (0..=REPORT_BYTES_MAX).rev().find(|end| report.is_char_boundary(*end)).unwrap_or_default();
            report.truncate(end);
            report.push_str("\n(truncated; `hermes-host status` and `hermes-host config show` print everything)");
        }
        // A fence inside the report would end the block.
        Deed::say(format!("```\n{}\n```", report.replace("```", "'''")))
    }

    fn report(&self) -> String {
        let host = &self.host;
        let live = host.live();
        let counts = &host.counts;
        let mut lines = vec![
            super::host::version(),
            format!("epoch {}, agent {} {}", host.epoch.0, host.runtime.name(), host.model()),
            format!(
                "events {}, parts delivered {}, turns running {}, rate limited {}, chats with muted bots {}",
                counts.events.load(Ordering::Relaxed),
                counts.delivered.load(Ordering::Relaxed),
                counts.turns_running.load(Ordering::Relaxed),
                counts.limited.load(Ordering::Relaxed),
                counts.silent_bots.load(Ordering::Relaxed),
            ),
            String::new(),
            "adapters:".to_owned(),
        ];
        for status in host.adapters().map(hermes_loader::Adapters::statuses).unwrap_or_default() {
            let reason = status.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let hermes_loader::AdapterStatus { name, plugin, version, state, isolation, restarts, .. } = status;
            lines.push(format!("  {name} ({plugin} {version}, {isolation}) {state}, restarts {restarts}{reason}"));
        }
        lines.extend([String::new(), "configuration that differs from the defaults:".to_owned()]);
        let differs = live.config.show(&Default::default()).into_iter().filter(|shown| shown.source != "default");
        lines.extend(differs.map(|shown| {
            let value: String = shown.value.chars().take(VALUE_CHARS_MAX).collect();
            format!("  {} = {value}  ({})", shown.key, shown.source)
        }));
        lines.extend(live.config.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }
}
