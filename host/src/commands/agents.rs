//! `/agents`: what the agent does for a person, and in this conversation.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::LeftRunning;
use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use hermes_core::session::is_dm;
use tokio::sync::mpsc;

use super::{Asked, Deed};
use crate::dispatcher::{Dispatcher, Found, owner};
use crate::events::TurnWish;
use crate::host::Host;
use crate::lane::{Act, LaneMessage, Later};
use crate::status::human::sentence;
use crate::store::{Change, TaskRow, Viewer};
use crate::tasks::act::By;
use crate::tasks::{self, words};
use crate::working::{Work, beginning};

/// Lines under one heading.
const LISTED_MAX: usize = 12;

/// How long `/agents stop` waits for the end before it answers.
const STOPPED_WAIT: Duration = Duration::from_secs(60);

const ENDED: &str = "It has ended meanwhile.";

/// Waits until a turn that is told to stop has ended, and says so.
async fn stopped(asked: String, mut ended: mpsc::Receiver<&'static str>) -> (String, Vec<Change>) {
    let waiting = async {
        let was = ended.recv().await;
        // Nothing more is said; the other end is dropped once the turn is over.
        while ended.recv().await.is_some() {}
        was
    };
    let words = match tokio::time::timeout(STOPPED_WAIT, waiting).await {
        Ok(Some(_)) => format!("Stopped: `{asked}`."),
        Ok(None) => ENDED.to_owned(),
        Err(_) => format!("Told to stop and not over yet: `{asked}`. `/agents` shows whether it has ended."),
    };
    (words, Vec::new())
}

impl Dispatcher {
    /// `/agents [stop NUMBER]`: what the agent does for this person.
    pub(super) fn agents(&mut self, asked: &Asked<'_>) -> Deed {
        let Asked { arrived, found, args } = asked;
        let owner = owner(&arrived.instance, &arrived.event);
        let mut theirs = self.host.working.of(owner.as_deref());
        let key = found.key.to_string();
        let in_private = is_dm(&arrived.event.get().chat.kind);
        if !in_private {
            theirs.retain(|work| self.is_of(work, found));
        }
        // What is answered in a group everybody there reads.
        let viewer = match owner.filter(|_| in_private) {
            Some(owner) => Viewer::Person(owner),
            None => Viewer::Conversation(key.clone()),
        };
        let by = By { viewer, key: Some(key.clone()), session: None };
        let here = TurnContext { session_id: Some(found.session.clone()), session_key: key, ..TurnContext::default() };
        if let Some(name) = args.strip_prefix("stop").map(|rest| rest.trim().trim_matches('`')) {
            return match theirs.iter().find(|work| work.turn.to_string() == name) {
                Some(work) => self.stop_turn(work),
                None if self.host.runtime.end_process(&here, name) => Deed::say(format!("Ended: `{name}`.")),
                None => Act::Later(Later::new(stop_task(Arc::clone(&self.host), by, name.to_owned()))).into(),
            };
        }
        if !args.is_empty() {
            return Deed::say("Use `/agents`, or `/agents stop NUMBER`.");
        }
        let left = self.host.runtime.processes(&here);
        Act::Later(Later::new(listed(Arc::clone(&self.host), theirs, found.session.clone(), left, by.viewer))).into()
    }

    /// Whether a turn runs in this conversation, or beside it.
    fn is_of(&self, work: &Work, here: &Found) -> bool {
        let beside = self.asides.get(&work.session);
        work.session == here.session || beside.is_some_and(|aside| aside.key == here.key.stored())
    }

    fn stop_turn(&mut self, work: &Work) -> Deed {
        // The lane holds it until the turn has ended.
        let (reply, ended) = mpsc::channel(1);
        let (instance, inbox) = (Arc::clone(&work.instance), work.inbox);
        let ask = LaneMessage::Ask { instance, inbox, wish: TurnWish::Stop, reply };
        match self.lanes.send(&work.session, ask).is_ok() {
            true => Act::Later(Later::new(stopped(work.asked.clone(), ended))).into(),
            false => Deed::say(ENDED),
        }
    }
}

/// Gives up a task that is named by its id.
async fn stop_task(host: Arc<Host>, by: By, name: String) -> (String, Vec<Change>) {
    let is_id = name.starts_with('t') && name.len() > 1;
    if !is_id {
        let words = "There is no such work of yours. `/agents` lists it with its numbers.";
        return (words.to_owned(), Vec::new());
    }
    let words = match tasks::give_up(&host, &by, &name, "stopped by whoever it was for").await {
        Ok(row) => format!("Given up: {}.", words::called(&row)),
        Err(why) => sentence(format!("Not stopped: {why}")),
    };
    (words, Vec::new())
}

/// What runs, and which tasks there are beside it.
async fn listed(
    host: Arc<Host>,
    works: Vec<Work>,
    here: SessionId,
    left: Vec<LeftRunning>,
    viewer: Viewer,
) -> (String, Vec<Change>) {
    let tasks = match host.store.tasks(viewer, false, 100).await {
        Ok(tasks) => tasks,
        Err(error) => return (format!("The tasks cannot be read ({error})."), Vec::new()),
    };
    // A task that is a turn is listed as that.
    let is_turn = |task: &TaskRow| works.iter().any(|work| Some(&work.session) == task.worker.as_ref() && work.aside);
    let tasks: Vec<&TaskRow> = tasks.iter().filter(|task| !is_turn(task)).collect();
    let now_ms = host.now_ms();
    let lists = [
        list("The agent works for you on:", works.iter().map(|work| turn_line(work, &here, now_ms))),
        list("Commands in the background:", left.iter().map(|left| process_line(&host, left))),
        list("Tasks:", tasks.iter().map(|task| task_line(task))),
    ];
    let lists: Vec<String> = lists.into_iter().flatten().collect();
    match lists.is_empty() {
        true => ("The agent does nothing for you at the moment.".to_owned(), Vec::new()),
        false => (lists.join("\n\n"), Vec::new()),
    }
}

/// A heading with its lines, as many as are shown; `None` without any.
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

fn process_line(host: &Host, left: &LeftRunning) -> String {
    let command = beginning(&host.live().masker.mask(left.command.as_str()));
    format!("- {}: `{command}` ({} min)", left.id, left.runs_for.as_secs() / 60)
}

fn task_line(task: &TaskRow) -> String {
    format!("- {} ({})", words::called(task), task.state.word().replace('_', " "))
}
