//! Texts about tasks: for users in a chat, for an agent, and as JSON.

use std::collections::BTreeMap;

use hermes_core::task::{TaskEvent, TaskState};
use serde_json::{Value, json};

use hermes_core::text::{counted, one_line};
use hermes_store::{Made, TaskEventRow, TaskRow, Untold};

/// The longest title in a notice, in characters.
const TITLE_CHARS_MAX: usize = 80;

/// The longest result in a notice of one event, in characters.
const TOLD_CHARS_MAX: usize = 1_500;

/// The longest result in a notice of several events, in characters.
const LINE_CHARS_MAX: usize = 200;

/// An event of a task.
pub type News<'n> = (&'n TaskRow, &'n TaskEventRow);

/// Returns the verb of an event, after the name of the task.
fn happened(event: TaskEvent) -> &'static str {
    match event {
        TaskEvent::Created => "was created",
        TaskEvent::Claimed => "was claimed",
        TaskEvent::Status => "reports",
        TaskEvent::Blocked => "is blocked",
        TaskEvent::Unblocked => "is unblocked",
        TaskEvent::Completed => "is completed",
        TaskEvent::GaveUp => "was given up",
        TaskEvent::Crashed => "crashed: the host ended while it ran; it can be claimed again",
        TaskEvent::TimedOut => "ran out of time; it can be claimed again",
        TaskEvent::Archived => "was archived",
    }
}

/// Returns the id and title of a task as code, so that nothing in the title is read as markup.
pub fn called(task: &TaskRow) -> String {
    format!("`{} {}`", task.id, one_line(&task.title, TITLE_CHARS_MAX).replace('`', "'"))
}

/// Returns the id and title of a task for an agent.
fn named(task: &TaskRow) -> String {
    format!("{} ({})", task.id, one_line(&task.title, TITLE_CHARS_MAX))
}

/// Cuts a text at its limit and marks the cut.
fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Writes the notice of these events for a chat, oldest first.
pub fn notice(news: &[News<'_>]) -> String {
    if let [(task, event)] = news {
        let said = cut(event.body.trim(), TOLD_CHARS_MAX);
        let name = called(task);
        return match said.as_str() {
            "" => format!("Task {name} {}.", happened(event.event)),
            said => format!("Task {name} {}:\n\n{said}", happened(event.event)),
        };
    }
    let lines = news.iter().map(|(task, event)| {
        let said = one_line(&event.body, LINE_CHARS_MAX);
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        format!("- Task {} {}{said}", called(task), happened(event.event))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes the notice for the chat of a task that was taken from the host elsewhere.
pub fn taken(task: &TaskRow) -> String {
    let said = cut(task.said.as_deref().unwrap_or_default(), TOLD_CHARS_MAX);
    format!("Task {} is {}: {said}", called(task), task.state.spelled())
}

/// Writes the wake-up of the session that created these tasks.
pub fn wake(news: &[News<'_>]) -> String {
    let told = news.iter().map(|(task, event)| {
        let said = match event.body.trim() {
            "" => String::new(),
            said => format!(":\n{said}"),
        };
        format!("The task {}, which was created in this conversation, {}{said}", named(task), happened(event.event))
    });
    told.collect::<Vec<_>>().join("\n\n")
}

/// Selects the events that a chat is notified of, each once, oldest first.
pub fn told(untold: &[Untold]) -> Vec<News<'_>> {
    let all = untold.iter().flat_map(|news| news.events.iter().map(move |event| (&news.task, event)));
    let mut told: Vec<_> = all.filter(|(_, event)| event.event.is_told()).collect();
    told.sort_by_key(|(_, event)| event.id);
    told.dedup_by_key(|(_, event)| event.id);
    told
}

/// Selects the events that wake each session, oldest first.
pub fn woken(untold: &[Untold]) -> Vec<(&Untold, Vec<News<'_>>)> {
    let mut sessions: BTreeMap<&str, (&Untold, Vec<News<'_>>)> = BTreeMap::new();
    for news in untold.iter().filter(|news| news.wakes) {
        let (_, woken) = sessions.entry(&news.session.0).or_insert_with(|| (news, Vec::new()));
        // A change that the task's own conversation made is no news there.
        let own = |event: &TaskEventRow| event.by_key.as_ref() == Some(&news.task.key);
        let events = news.events.iter().filter(|event| event.event.wakes() && !own(event));
        woken.extend(events.map(|event| (&news.task, event)));
    }
    let mut woken: Vec<_> = sessions.into_values().collect();
    woken.iter_mut().for_each(|(_, news)| news.sort_by_key(|(_, event)| event.id));
    woken
}

/// Returns the reason for which no further task is created.
pub fn full(made: &Made) -> String {
    match made {
        Made::TooMany(count) => {
            format!("there are already {} that have not ended; end or archive some first", counted(*count, "task"))
        }
        Made::TooManyRun(count) => {
            format!("{} of this user already run unattended; wait for one to end", counted(*count, "task"))
        }
        Made::Task(row) => format!("{} was created", row.id),
    }
}

/// Describes a task in one object for an agent.
pub fn short(task: &TaskRow) -> Value {
    let mut shown = json!({ "task": task.id, "title": task.title, "state": task.state.word() });
    if let Some(note) = &task.note {
        shown["last_report"] = json!(one_line(note, LINE_CHARS_MAX));
    }
    if task.kind != hermes_store::TaskKind::Task {
        shown["kind"] = json!(task.kind.word());
    }
    shown
}

/// Describes a task with all its details and events.
pub fn whole(task: &TaskRow, events: &[TaskEventRow]) -> Value {
    let mut shown = short(task);
    if let Some(note) = &task.note {
        shown["last_report"] = json!(note);
    }
    shown["text"] = json!(task.body);
    shown["created_ms"] = json!(task.created_ms);
    let said = match &task.state {
        TaskState::Completed { .. } => "result",
        TaskState::Blocked { .. } => "waits_for",
        _ => "why",
    };
    if let Some(words) = &task.said {
        shown[said] = json!(words);
    }
    let events = events.iter().map(|event| {
        json!({ "at_ms": event.at_ms, "event": event.event.word(), "said": one_line(&event.body, LINE_CHARS_MAX) })
    });
    shown["events"] = Value::Array(events.collect());
    shown
}
