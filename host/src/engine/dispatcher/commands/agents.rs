//! `/agents`: the work of the agent for a person, and in this conversation.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::BackgroundProcess;
use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use hermes_core::session::is_dm;
use tokio::sync::mpsc;

use super::{Asked, Deed};
use crate::engine::active_turns::{Work, beginning};
use crate::engine::background::tasks;
use crate::engine::background::tasks::act::By;
use crate::engine::background::tasks::words;
use crate::engine::dispatcher::{Dispatcher, Found, owner};
use crate::engine::messages::{Control, HostEvent, TurnWish};
use crate::engine::runtime::Host;
use crate::engine::session::{Act, Later};
use hermes_core::text::{counted, echo, sentence};
use hermes_store::{Change, TaskRow, Viewer};

/// Lines below one heading.
const LISTED_MAX: usize = 12;

/// Timeout of `/agents stop` for the end of the turn.
const STOPPED_WAIT: Duration = Duration::from_secs(60);

/// The reason of a task that its user stops.
const BY_THEM: &str = "stopped by its user";

const TURNS: &str = "Running turns:";

const COMMANDS: &str = "Background commands:";

const TASKS: &str = "Tasks:";

const ENDED: &str = "It has already ended.";

/// Waits until a stopped turn has ended, and reports that.
async fn stopped(work: &Work, taken: bool, mut ended: mpsc::Receiver<&'static str>) -> (String, Vec<Change>) {
    let asked = &work.asked;
    let waiting = async {
        let was = ended.recv().await;
        // No further message comes; the other end is dropped once the turn is over.
        while ended.recv().await.is_some() {}
        was
    };
    let words = match tokio::time::timeout(STOPPED_WAIT, waiting).await {
        Ok(Some(_)) => format!("Stopped: `{asked}`."),
        // The turn ended because its task was taken from it.
        Ok(None) if taken => format!("Stopped: `{asked}`."),
        Ok(None) => ENDED.to_owned(),
        Err(_) => format!("Stopping `{asked}`… `/agents` shows whether it has ended."),
    };
    (words, Vec::new())
}

const USAGE: &str = "Use `/agents`, or `/agents stop` with a number or an id from its list.";

/// The work that a sender may see and end in this chat.
struct Own {
    /// Turns.
    works: Vec<Work>,
    /// The conversation, as far as it matters for background commands.
    here: TurnContext,
    /// The identity for viewing and ending tasks.
    by: By,
}

impl Dispatcher {
    /// `/agents [stop NUMBER | ID]`: lists or stops the work of the agent for this person.
    pub(super) fn agents(&mut self, asked: &Asked<'_>) -> Deed {
        let words: Vec<&str> = asked.args.split_whitespace().collect();
        let own = self.own(asked);
        let name = match words.as_slice() {
            [] => {
                let left = self.host.runtime.processes(&own.here);
                let (host, session) = (Arc::clone(&self.host), asked.found.session.clone());
                return Act::Later(Later::new(listed(host, own.works, session, left, own.by.viewer))).into();
            }
            ["stop", name] => name.trim_matches('`'),
            _ => return Deed::say(USAGE),
        };
        if let Some(work) = own.works.iter().find(|work| work.turn.to_string() == name) {
            return Act::Later(Later::new(stop_turn(Arc::clone(&self.host), own.by, work.clone()))).into();
        }
        match self.process(&own.here, name) {
            Process::One(id) if self.host.runtime.end_process(&own.here, &id) => Deed::say(format!("Ended: `{id}`.")),
            Process::Several(ids) => {
                Deed::say(format!("Several ids begin with {} ({}); give more of the id.", echo(name), ids.join(", ")))
            }
            Process::One(_) | Process::None => {
                Act::Later(Later::new(stop_task(Arc::clone(&self.host), own.by, name.to_owned()))).into()
            }
        }
    }

    /// `/stop`: stops the running turn. Background work continues, and the reply mentions it.
    pub(super) fn stop(&mut self, asked: &Asked<'_>) -> Deed {
        let own = self.own(asked);
        let beside = [
            counted_some(self.host.runtime.processes(&own.here).len(), "command"),
            counted_some(own.works.iter().filter(|work| work.aside).count(), "turn"),
            counted_some(self.host.helpers.of(&own.here.session_key), "sub-agent"),
        ];
        let beside: Vec<String> = beside.into_iter().flatten().collect();
        let idle = match beside.is_empty() {
            true => "Nothing is running.".to_owned(),
            false => format!(
                "No turn is running here. In the background: {}. `/agents` lists what is running; `/agents stop ID` stops one.",
                beside.join(", ")
            ),
        };
        Act::Stop { idle }.into()
    }

    /// Collects the work of the sender in this chat.
    fn own(&self, asked: &Asked<'_>) -> Own {
        let Asked { arrived, found, .. } = asked;
        let owner = owner(&arrived.instance, &arrived.event);
        let mut works = self.host.working.of(owner.as_deref());
        let key = found.key.to_string();
        let in_private = is_dm(&arrived.event.get().chat.kind);
        if !in_private {
            works.retain(|work| self.is_of(work, found));
        }
        // Everybody in a group reads the answer.
        let viewer = match owner.filter(|_| in_private) {
            Some(owner) => Viewer::Person(owner),
            None => Viewer::Conversation(key.clone()),
        };
        let by = By { viewer, key: Some(key.clone()), session: None };
        let here = TurnContext { session_id: Some(found.session.clone()), session_key: key, ..TurnContext::default() };
        Own { works, here, by }
    }

    /// Finds a background command by its id or a unique beginning of it.
    fn process(&self, here: &TurnContext, name: &str) -> Process {
        let mut ids: Vec<String> = self.host.runtime.processes(here).into_iter().map(|left| left.id).collect();
        ids.retain(|id| name.len() > 1 && id.starts_with(name));
        match ids.iter().position(|id| id == name) {
            Some(exact) => Process::One(ids.swap_remove(exact)),
            None if ids.len() > 1 => Process::Several(ids),
            None => ids.pop().map_or(Process::None, Process::One),
        }
    }

    /// Returns whether a turn runs in this conversation, or in its background.
    fn is_of(&self, work: &Work, here: &Found) -> bool {
        let beside = self.asides.get(&work.session);
        work.session == here.session || beside.is_some_and(|aside| aside.key == here.key.stored())
    }
}

/// The background command that a name refers to.
enum Process {
    One(String),
    Several(Vec<String>),
    None,
}

/// Counts items; `None` without any.
fn counted_some(count: usize, what: &str) -> Option<String> {
    (count > 0).then(|| counted(u64::try_from(count).unwrap_or(u64::MAX), what))
}

/// Stops a turn that is named by its number. A turn that is a task is given up as a task, so that the same subscribers
/// are notified as for its id.
async fn stop_turn(host: Arc<Host>, by: By, work: Work) -> (String, Vec<Change>) {
    let task = work.session.clone();
    let taken = match work.aside {
        true => tasks::give_up_in(&host, &by, &task, BY_THEM).await,
        false => Ok(false),
    };
    if let Err(why) = &taken {
        tracing::debug!(session = %task, why, "task of a stopped turn could not be given up");
    }
    // The lane keeps the sender until the turn has ended.
    let (reply, ended) = mpsc::channel(1);
    let control =
        Control::Turn { instance: Arc::clone(&work.instance), inbox: work.inbox, wish: TurnWish::Stop, reply };
    host.tell(HostEvent::control(control)).await;
    stopped(&work, taken == Ok(true), ended).await
}

/// Gives up a task that is named by its id.
async fn stop_task(host: Arc<Host>, by: By, name: String) -> (String, Vec<Change>) {
    let is_id = name.starts_with('t') && name.len() > 1;
    if !is_id {
        let words = "Nothing of yours has that number or id. `/agents` lists what is running.";
        return (words.to_owned(), Vec::new());
    }
    let words = match tasks::give_up(&host, &by, &name, BY_THEM).await {
        Ok(row) => format!("Given up: {}.", words::called(&row)),
        Err(why) => sentence(format!("Not stopped: {why}")),
    };
    (words, Vec::new())
}

/// Lists the running turns, the background commands and the other tasks.
async fn listed(
    host: Arc<Host>,
    works: Vec<Work>,
    here: SessionId,
    left: Vec<BackgroundProcess>,
    viewer: Viewer,
) -> (String, Vec<Change>) {
    let tasks = match host.store.tasks(viewer, false, 100).await {
        Ok(tasks) => tasks,
        Err(error) => return (format!("The tasks could not be read ({error})."), Vec::new()),
    };
    // A task that is a turn is listed as a turn.
    let is_turn = |task: &TaskRow| works.iter().any(|work| Some(&work.session) == task.worker.as_ref() && work.aside);
    let tasks: Vec<&TaskRow> = tasks.iter().filter(|task| !is_turn(task)).collect();
    let now_ms = host.now_ms();
    let lists = [
        list(TURNS, works.iter().map(|work| turn_line(work, &here, now_ms))),
        list(COMMANDS, left.iter().map(|left| process_line(&host, left))),
        list(TASKS, tasks.iter().map(|task| task_line(task))),
    ];
    let lists: Vec<String> = lists.into_iter().flatten().collect();
    match lists.is_empty() {
        true => ("Nothing is running for you.".to_owned(), Vec::new()),
        false => (lists.join("\n\n"), Vec::new()),
    }
}

/// Returns the names by which the items of an `/agents` answer are stopped; empty if `text` is no such answer.
pub(crate) fn names_in(text: &str) -> Vec<String> {
    let is_one = text.lines().next().is_some_and(|first| [TURNS, COMMANDS, TASKS].contains(&first));
    let lines = text.lines().filter(|_| is_one).filter_map(|line| line.strip_prefix("- "));
    let names = lines.filter_map(|line| line.trim_start_matches('`').split([':', ' ']).next());
    names.filter(|name| !name.is_empty() && *name != "and").map(str::to_owned).collect()
}

/// Writes a heading with its lines, up to the limit; `None` without any.
fn list(heading: &str, lines: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let all = lines.len();
    let mut shown: Vec<String> = lines.take(LISTED_MAX).collect();
    if all > LISTED_MAX {
        shown.push(format!("- and {} more", all - LISTED_MAX));
    }
    (all > 0).then(|| format!("{heading}\n{}", shown.join("\n")))
}

fn turn_line(work: &Work, here: &SessionId, now_ms: i64) -> String {
    let minutes = now_ms.saturating_sub(work.since_ms).max(0) / 60_000;
    let where_it_is = match (work.aside, work.session == *here) {
        (true, _) => "in the background",
        (false, true) => "here",
        (false, false) => "elsewhere",
    };
    format!("- {}: `{}` ({where_it_is}, {minutes} min)", work.turn, work.asked)
}

fn process_line(host: &Host, left: &BackgroundProcess) -> String {
    let command = beginning(&host.live().masker.mask(left.command.as_str()));
    format!("- {}: `{command}` ({} min)", left.id, left.runs_for.as_secs() / 60)
}

fn task_line(task: &TaskRow) -> String {
    format!("- {} ({})", words::called(task), task.state.word().replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_found_by_what_ends_it() {
        let turns = list(TURNS, ["- 7: `count` (here, 0 min)".to_owned()].into_iter());
        let commands = list(COMMANDS, ["- p1ab: `sleep 9` (2 min)".to_owned()].into_iter());
        let tasks = list(TASKS, (0..13).map(|n| format!("- `t{n} mend: it` (ready)")));
        let text = [turns, commands, tasks].map(Option::unwrap_or_default).join("\n\n");
        let names = names_in(&text);
        assert_eq!((names.len(), &names[..3]), (14, ["7", "p1ab", "t0"].map(str::to_owned).as_slice()));
        assert!(names_in("Said of it:\n- 7: that").is_empty() && names_in("").is_empty());
    }
}
