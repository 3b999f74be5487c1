//! Looks after one process until it has ended, and tells what was to be told.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::time::Instant;

use super::{End, Process, State, Watch};
use crate::tools::Ports;
use crate::tools::group;
use crate::tools::output::{bounded, plain};
use crate::tools::ports::{Followed, News};

/// How often a running process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a hit of a pattern is put off, so that several are told together.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How often what printed its exit code is looked at before it is said that something of it runs on: what it printed
/// last may still be on its way.
const LOOKS_BEHIND: u32 = 4;

/// How often a session is woken for what one process prints; its end is told besides.
pub const TELLS_MAX: u32 = 20;

/// Lines that are told at once.
const HITS_MAX: usize = 20;

/// What one look reads, in bytes.
const LOOKED_BYTES_MAX: u64 = 256 << 10;

/// The longest line in which a pattern is looked for, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;

/// What of the last output is told with the end, in bytes.
const LAST_BYTES: u64 = 4 << 10;

/// What is told of the command, in bytes.
const COMMAND_BYTES_MAX: usize = 300;

/// How it is seen that a process has ended.
pub enum Handle {
    /// It is a child of this host.
    Child(Box<Child>),
    /// An earlier life of the host started it.
    Found,
}

impl Handle {
    /// Waits a moment for its end; returns how, as far as it can be seen from outside.
    async fn gone(&mut self, process: &Process) -> Option<End> {
        match self {
            Self::Child(child) => {
                let status = tokio::time::timeout(LOOK_EVERY, child.wait()).await.ok()?;
                let signal = status.ok().and_then(|status| status.signal());
                Some(signal.map_or(End::Unknown, End::Signal))
            }
            Self::Found if !group::lives(process.pid, &process.mark) => Some(End::Unknown),
            Self::Found => {
                tokio::time::sleep(LOOK_EVERY).await;
                None
            }
        }
    }
}

/// Looks after a process until nothing of it runs any more. `followed`: its session is to hear of it, and how much it
/// has heard.
pub async fn look_after(
    process: Arc<Process>,
    mut handle: Handle,
    watch: Watch,
    followed: Option<Followed>,
    ports: Ports,
) {
    let mut lines = followed.map(|followed| Lines::new(watch.patterns, followed));
    let mut notify = watch.notify;
    let mut told = Instant::now();
    let mut looks = 0;
    let end = loop {
        let gone = handle.gone(&process).await;
        let code = process.files.exit_code();
        if let Some(lines) = &mut lines {
            lines.look(&process, &ports, gone.is_some());
            if told.elapsed() >= TELL_EVERY && gone.is_none() && lines.has_hits() {
                told = Instant::now();
                ports.wakes.tell(lines.news(&process, &ports)).await;
            }
        }
        match (code, gone) {
            (Some(code), Some(_)) => break End::Code(code),
            (None, Some(_)) if process.was_killed() => break End::Killed,
            (None, Some(end)) => break end,
            (Some(code), None) => {
                looks += 1;
                if looks == LOOKS_BEHIND {
                    process.state.send_replace(State::Left(code));
                    lines = lines_of_what_is_left(&process, &ports, lines, &mut notify).await;
                }
            }
            (None, None) => {}
        }
    };
    process.state.send_replace(State::Ended(end));
    let Some(mut lines) = lines else { return };
    if process.is_known_to_have_ended() {
        return ports.wakes.forget(&process.id).await;
    }
    let mut news = lines.news(&process, &ports);
    if notify {
        tell_end_with(&mut news, &process, &ports, &end.words());
    }
    news.last = true;
    if news.text.is_empty() {
        return ports.wakes.forget(&process.id).await;
    }
    ports.wakes.tell(news).await;
}

/// The command has ended, and something that it started runs on: the end is told, where that was wanted. Returns what
/// is still looked for.
async fn lines_of_what_is_left(
    process: &Process,
    ports: &Ports,
    lines: Option<Lines>,
    notify: &mut bool,
) -> Option<Lines> {
    let mut lines = lines?;
    if !std::mem::take(notify) {
        return Some(lines);
    }
    let looks_on = lines.looks_on();
    match (process.is_known_to_have_ended(), process.state()) {
        (false, State::Left(code)) => {
            let mut news = lines.news(process, ports);
            tell_end_with(&mut news, process, ports, &left_words(code));
            news.last = !looks_on;
            ports.wakes.tell(news).await;
        }
        _ if !looks_on => ports.wakes.forget(&process.id).await,
        _ => {}
    }
    looks_on.then_some(lines)
}

/// How a command ended that left something running, as the agent is told.
pub fn left_words(code: i32) -> String {
    format!(
        "{}; something that it started still runs, and is ended with process(action=\"kill\")",
        End::Code(code).words()
    )
}

fn tell_end_with(news: &mut News, process: &Process, ports: &Ports, how: &str) {
    let last = plain(&process.files.end(LAST_BYTES), &*ports.mask);
    let command = process.shown(ports, COMMAND_BYTES_MAX);
    let end = format!("The process {} (`{command}`) {how}. The end of what it printed:\n{last}", process.id);
    news.text = if news.text.is_empty() { end } else { format!("{}\n\n{end}", news.text) };
}

/// The lines in which a pattern stands.
struct Lines {
    patterns: Vec<String>,
    /// How far was read.
    seen: u64,
    /// A line without its end.
    rest: Vec<u8>,
    hits: Vec<String>,
    /// Hits for which there was no room.
    more: usize,
    told: u32,
}

impl Lines {
    fn new(patterns: Vec<String>, followed: Followed) -> Self {
        let patterns = patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect();
        let Followed { upto, told } = followed;
        Self { patterns, seen: upto, rest: Vec::new(), hits: Vec::new(), more: 0, told }
    }

    fn look(&mut self, process: &Process, ports: &Ports, to_the_end: bool) {
        if !self.looks_on() {
            return;
        }
        loop {
            let printed = process.files.read(self.seen, LOOKED_BYTES_MAX);
            let is_all = (printed.bytes.len() as u64) < LOOKED_BYTES_MAX;
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
        // A line without an end must not grow for ever.
        if self.rest.len() > LINE_BYTES_MAX {
            self.rest.clear();
        }
    }

    /// Whether something may still be told of what is printed.
    fn looks_on(&self) -> bool {
        !self.patterns.is_empty() && self.told < TELLS_MAX
    }

    fn has_hits(&self) -> bool {
        !self.hits.is_empty()
    }

    /// What is to be told so far; without hits an empty text.
    fn news(&mut self, process: &Process, ports: &Ports) -> News {
        let (hits, more) = (std::mem::take(&mut self.hits), std::mem::take(&mut self.more));
        let upto = self.seen - self.rest.len() as u64;
        let mut text = String::new();
        if !hits.is_empty() {
            self.told += 1;
            let command = process.shown(ports, COMMAND_BYTES_MAX);
            text = format!("The process {} (`{command}`) printed:\n{}", process.id, hits.join("\n"));
            if more > 0 {
                text.push_str(&format!("\n[… {more} more such lines …]"));
            }
            if self.told >= TELLS_MAX {
                text.push_str("\nIt has printed such lines so often that you are not told of any more; poll it.");
            }
        }
        News { id: process.id.clone(), text, last: false, upto }
    }
}
