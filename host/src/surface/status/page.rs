//! The status page: one document, no script, refreshed by the browser.

use std::fmt::Write as _;

use crate::engine::operator::{AdapterStatus, AgentStatus, StatusJson};
use hermes_core::text::{one_line, span};

/// The style sheet, served separately so that the page needs no inline style.
pub const STYLE: &str = include_str!("page.css");

/// The longest reason that is shown, in characters.
const REASON_CHARS_MAX: usize = 300;

/// Renders the page for `status` as of `now_ms`.
///
/// Announced URLs may contain keys, so the page does not show them.
pub fn render(status: &StatusJson, now_ms: i64) -> String {
    let host = &status.host;
    let adapters: String = match status.adapters.as_slice() {
        [] => "<p class=\"quiet\">No adapter is configured.</p>".to_owned(),
        adapters => format!(
            "<ul class=\"adapters\">{}</ul>",
            adapters.iter().map(|adapter| row(adapter, now_ms)).collect::<String>()
        ),
    };
    let queues = &status.queues;
    let numbers: String = [
        ("events waiting", queues.inbox, false),
        ("turns running", queues.turns, false),
        ("deliveries owed", queues.outbox, false),
        ("abandoned", queues.dead, queues.dead > 0),
        ("open sessions", status.sessions.open, false),
    ]
    .iter()
    .map(|(label, number, bad)| {
        let class = if *bad { " class=\"bad\"" } else { "" };
        format!("<div{class}><dt>{label}</dt><dd>{number}</dd></div>")
    })
    .collect();
    let agent = agent(&status.agent, now_ms);
    let warnings: String = match status.warnings.as_slice() {
        [] => String::new(),
        warnings => {
            let items: String = warnings.iter().map(|warning| format!("<li>{}</li>", text(warning))).collect();
            format!("<h2>Warnings</h2><ul class=\"warnings\">{items}</ul>")
        }
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>hermes-host: {state}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta http-equiv=\"refresh\" content=\"5\">\
         <link rel=\"stylesheet\" href=\"/status.css\"></head><body><main>\
         <header><h1>hermes-host</h1><p><span class=\"state {class}\">{state}</span> for {since}</p></header>\
         <dl class=\"numbers\">{numbers}</dl>{agent}<h2>Adapters</h2>{adapters}{warnings}\
         <footer>version {version} · process {pid} · {home} · agent {answers}{proxy}</footer></main></body></html>\n",
        state = text(&host.state),
        class = class(&host.state),
        since = span(now_ms - host.since),
        version = text(&host.version),
        pid = host.pid,
        home = text(&host.home),
        answers = text(&status.agent.describe()),
        proxy = host.proxy.as_ref().map(|proxy| format!(" · proxy {}", text(proxy))).unwrap_or_default(),
    )
}

/// Renders the state of the agent if it does not answer.
fn agent(agent: &AgentStatus, now_ms: i64) -> String {
    let Some(trouble) = agent.trouble(now_ms) else { return String::new() };
    let detail = agent.last_error.as_ref().map(|error| one_line(&error.detail, REASON_CHARS_MAX)).unwrap_or_default();
    format!(
        "<h2>Agent</h2><ul class=\"adapters\"><li><div class=\"line\"><strong>{}</strong><span class=\"state bad\">{}</span>\
         </div><p class=\"reason\">{}</p><p class=\"reason\">{}</p></li></ul>",
        text(&agent.describe()),
        text(&agent.state),
        text(&trouble),
        text(&detail),
    )
}

fn row(adapter: &AdapterStatus, now_ms: i64) -> String {
    let mut notes = Vec::new();
    if let Some(proven) = adapter.last_proven {
        notes.push(format!("proven {} ago", span(now_ms - proven)));
    }
    if adapter.held > 0 {
        notes.push(format!("{} held", adapter.held));
    }
    if let Some(next) = adapter.next_try {
        notes.push(format!("next attempt in {}", span(next - now_ms)));
    }
    for part in [&adapter.isolation, &adapter.guarantee] {
        if !part.is_empty() {
            notes.push(part.clone());
        }
    }
    if adapter.upstream_ignored {
        notes.push("its sender claims are not trusted".to_owned());
    }
    let mut html = String::new();
    // Writing into a `String` cannot fail.
    let _ = write!(
        html,
        "<li><div class=\"line\"><strong>{}</strong><span class=\"state {}\">{}</span><span class=\"quiet\">{}</span></div>\
         <div class=\"quiet\">{} {}{}</div>",
        text(&adapter.name),
        class(&adapter.state),
        text(&adapter.state),
        if adapter.since > 0 { span(now_ms - adapter.since) } else { String::new() },
        text(&adapter.plugin),
        text(&adapter.version),
        notes.iter().map(|note| format!(" · {}", text(note))).collect::<String>(),
    );
    if let Some(reason) = &adapter.reason {
        let _ = write!(html, "<p class=\"reason\">{}</p>", text(&one_line(reason, REASON_CHARS_MAX)));
    }
    html + "</li>"
}

/// Returns the colour class of a state word. Unknown words get the plain class.
fn class(state: &str) -> &'static str {
    match state {
        "online" => "good",
        "starting" | "reconnecting" | "degraded" | "draining" | "paused" => "fair",
        "failed" | "stuck" => "bad",
        _ => "idle",
    }
}

fn text(value: &str) -> String {
    let mut safe = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
