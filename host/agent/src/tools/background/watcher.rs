//! The watcher of one process: follows it until its end and notifies its session.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::time::Instant;

use super::{Process, ProcessEnd, ProcessState, Watch};
use crate::tools::Ports;
use crate::tools::group;
use crate::tools::output::{bounded, plain};
use crate::tools::ports::{JobUpdate, Subscription};

/// Interval of the checks of a running process.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Interval of notifications about output, so that several matches are reported together.
const NOTIFY_EVERY: Duration = Duration::from_secs(5);

/// Number of checks after the exit code before remaining processes are reported, because the last output may
/// still be arriving.
const CHECKS_AFTER_EXIT: u32 = 4;

/// Highest number of notifications about the output of one process. The end is reported in addition.
pub const NOTIFICATIONS_MAX: u32 = 20;

/// Lines in one notification.
const HITS_MAX: usize = 20;

/// Bytes read by one check.
const CHECKED_BYTES_MAX: u64 = 256 << 10;

/// Longest line in which patterns are searched, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Bytes of output reported with the end.
const LAST_BYTES: u64 = 4 << 10;

/// Bytes of the command in a notification.
const COMMAND_BYTES_MAX: usize = 300;

/// The way in which the end of a process is detected.
pub(super) enum ProcessHandle {
    /// The process is a child of this host.
    Child(Box<Child>),
    /// An earlier run of the host started the process.
    Adopted,
}

impl ProcessHandle {
    /// Waits briefly for the end of the process. Returns the end, as far as it can be determined from outside.
    async fn gone(&mut self, process: &Process) -> Option<ProcessEnd> {
        match self {
            Self::Child(child) => {
                let status = tokio::time::timeout(CHECK_EVERY, child.wait()).await.ok()?;
                let signal = status.ok().and_then(|status| status.signal());
                Some(signal.map_or(ProcessEnd::Unknown, ProcessEnd::Signal))
            }
            Self::Adopted if !group::carries_mark(process.pid, &process.mark) => Some(ProcessEnd::Unknown),
            Self::Adopted => {
                tokio::time::sleep(CHECK_EVERY).await;
                None
            }
        }
    }
}

/// Watches a process until its whole group has ended. `subscription` contains the state of the notifications if the
/// session follows the process.
pub(super) async fn watch_process(
    process: Arc<Process>,
    mut handle: ProcessHandle,
    watch: Watch,
    subscription: Option<Subscription>,
    ports: Ports,
) {
    let mut search = subscription.map(|subscription| PatternSearch::new(watch.patterns, subscription));
    let mut notify = watch.notify;
    let mut notified = Instant::now();
    let mut checks = 0;
    let end = loop {
        let gone = handle.gone(&process).await;
        let code = process.files.exit_code();
        if let Some(search) = &mut search {
            search.look(&process, &ports, gone.is_some());
            if notified.elapsed() >= NOTIFY_EVERY && gone.is_none() && search.has_hits() {
                notified = Instant::now();
                ports.wakeups.notify(search.news(&process, &ports)).await;
            }
        }
        match (code, gone) {
            (Some(code), Some(_)) => break ProcessEnd::Code(code),
            (None, Some(_)) if process.was_killed() => break ProcessEnd::Killed,
            (None, Some(end)) => break end,
            (Some(code), None) => {
                checks += 1;
                if checks == CHECKS_AFTER_EXIT {
                    process.state.send_replace(ProcessState::Left(code));
                    search = report_left_process(&process, &ports, search, &mut notify).await;
                }
            }
            (None, None) => {}
        }
    };
    process.state.send_replace(ProcessState::Ended(end));
    let Some(mut search) = search else { return };
    if process.is_known_to_have_ended() {
        return ports.wakeups.unsubscribe(&process.id).await;
    }
    let mut news = search.news(&process, &ports);
    if notify {
        append_end(&mut news, &process, &ports, &end.words());
    }
    news.last = true;
    if news.text.is_empty() {
        return ports.wakeups.unsubscribe(&process.id).await;
    }
    ports.wakeups.notify(news).await;
}

/// Reports the end of a command that left a running process behind, if the session asked for it. Returns the
/// search for patterns if it continues.
async fn report_left_process(
    process: &Process,
    ports: &Ports,
    search: Option<PatternSearch>,
    notify: &mut bool,
) -> Option<PatternSearch> {
    let mut search = search?;
    if !std::mem::take(notify) {
        return Some(search);
    }
    let is_active = search.is_active();
    match (process.is_known_to_have_ended(), process.state()) {
        (false, ProcessState::Left(code)) => {
            let mut news = search.news(process, ports);
            append_end(&mut news, process, ports, &left_description(code));
            news.last = !is_active;
            ports.wakeups.notify(news).await;
        }
        _ if !is_active => ports.wakeups.unsubscribe(&process.id).await,
        _ => {}
    }
    is_active.then_some(search)
}

/// Returns a description, for the agent, of the end of a command that left a running process behind.
pub fn left_description(code: i32) -> String {
    format!(
        "{}, but a process that it started is still running; stop it with process(action=\"kill\")",
        ProcessEnd::Code(code).words()
    )
}

fn append_end(news: &mut JobUpdate, process: &Process, ports: &Ports, how: &str) {
    let last = plain(&process.files.end(LAST_BYTES), &*ports.mask);
    let command = process.shown(ports, COMMAND_BYTES_MAX);
    let end = format!("The process {} (`{command}`) {how}. The end of its output:\n{last}", process.id);
    news.text = if news.text.is_empty() { end } else { format!("{}\n\n{end}", news.text) };
}

/// The search for lines that match a pattern.
struct PatternSearch {
    patterns: Vec<String>,
    /// Offset of the search in the output, in bytes.
    seen: u64,
    /// Start of an incomplete line.
    rest: Vec<u8>,
    hits: Vec<String>,
    /// Matches beyond the limit of one notification.
    more: usize,
    notified: u32,
}

impl PatternSearch {
    fn new(patterns: Vec<String>, subscription: Subscription) -> Self {
        let patterns = patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect();
        let Subscription { upto, notified } = subscription;
        Self { patterns, seen: upto, rest: Vec::new(), hits: Vec::new(), more: 0, notified }
    }

    fn look(&mut self, process: &Process, ports: &Ports, to_the_end: bool) {
        if !self.is_active() {
            return;
        }
        loop {
            let printed = process.files.read(self.seen, CHECKED_BYTES_MAX);
            let is_all = (printed.bytes.len() as u64) < CHECKED_BYTES_MAX;
            if printed.dropped > 0 {
                self.rest.clear();
            }
            self.seen = printed.upto;
            self.rest.extend_from_slice(&printed.bytes);
            self.take_hits(ports, to_the_end && is_all);
            if is_all || !to_the_end {
                return;
            }
        }
    }

    fn take_hits(&mut self, ports: &Ports, at_end: bool) {
        let newline = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole = if at_end { self.rest.len() } else { newline };
        let text = plain(&self.rest.drain(..whole).collect::<Vec<u8>>(), &*ports.mask);
        let is_hit = |line: &&str| self.patterns.iter().any(|pattern| line.contains(pattern.as_str()));
        for line in text.lines().filter(is_hit) {
            match self.hits.len() < HITS_MAX {
                true => self.hits.push(bounded(line, 500)),
                false => self.more += 1,
            }
        }
        // A line without an end must not grow without limit.
        if self.rest.len() > LINE_BYTES_MAX {
            self.rest.clear();
        }
    }

    /// Returns true if the search may still find lines to report.
    fn is_active(&self) -> bool {
        !self.patterns.is_empty() && self.notified < NOTIFICATIONS_MAX
    }

    fn has_hits(&self) -> bool {
        !self.hits.is_empty()
    }

    /// Returns the pending notification; its text is empty without matches.
    fn news(&mut self, process: &Process, ports: &Ports) -> JobUpdate {
        let (hits, more) = (std::mem::take(&mut self.hits), std::mem::take(&mut self.more));
        let upto = self.seen - self.rest.len() as u64;
        let mut text = String::new();
        if !hits.is_empty() {
            self.notified += 1;
            let command = process.shown(ports, COMMAND_BYTES_MAX);
            text = format!("The process {} (`{command}`) printed:\n{}", process.id, hits.join("\n"));
            if more > 0 {
                text.push_str(&format!("\n[… {more} more matching lines …]"));
            }
            if self.notified >= NOTIFICATIONS_MAX {
                text.push_str("\nThe limit of notifications for this process is reached; poll it for further output.");
            }
        }
        JobUpdate { id: process.id.clone(), text, last: false, upto }
    }
}
