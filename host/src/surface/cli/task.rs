//! `task`: tasks and background jobs.

use super::args::{Listed, TaskCommand};
use super::ask::{self, print, print_json, unexpected};
use super::table::{Table, ago};
use super::{Context, Failure};
use crate::engine::operator::{ControlReply, ControlRequest, TaskEventInfo, TaskInfo};
use hermes_core::clock::Clock;
use hermes_core::text::{counted, is_shown, one_line};
use hermes_system::clock::SystemClock;

/// Characters of a title above the details of a task.
const TITLE_CHARS_MAX: usize = 200;

pub async fn task(context: &Context, command: TaskCommand) -> Result<(), Failure> {
    match command {
        TaskCommand::List { all, shown } => list(context, all, shown).await,
        TaskCommand::Show { task, json } => {
            let reply = ask::host_or_store(context, &ControlRequest::TaskShow { task }).await?;
            let ControlReply::Task { task, events } = &reply else { return Err(unexpected(&reply)) };
            if json {
                return print_json(&serde_json::json!({ "task": task, "events": events }));
            }
            print(&shown(task, events, SystemClock.now_ms()))
        }
        TaskCommand::Cancel { task, why } => ask::done(context, &ControlRequest::TaskCancel { task, why }).await,
    }
}

async fn list(context: &Context, all: bool, Listed { limit, json }: Listed) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::TaskList { limit, all }).await?;
    let ControlReply::Tasks { tasks } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(tasks);
    }
    print(&listing(tasks, SystemClock.now_ms()))
}

fn listing(tasks: &[TaskInfo], now_ms: i64) -> String {
    let mut table = Table::new(&["TASK", "TITLE", "KIND", "STATE", "OF", "CHANGED", "SAID"]);
    for task in tasks {
        let said = task.said.clone().or_else(|| task.note.clone()).unwrap_or_default();
        table.row([
            task.id.clone(),
            task.title.clone(),
            task.kind.clone(),
            task.state.clone(),
            task.owner.clone().or_else(|| task.chat.clone()).unwrap_or_default(),
            ago(now_ms, task.changed_ms),
            said,
        ]);
    }
    table.render("no open tasks; --all also shows ended ones")
}

fn shown(task: &TaskInfo, events: &[TaskEventInfo], now_ms: i64) -> String {
    let TaskInfo { id, kind, title, state, session, .. } = task;
    let mut out = format!("{id}  {}\n{kind}, {state}", one_line(title, TITLE_CHARS_MAX));
    if task.attempts > 0 {
        out.push_str(&format!(", tried {}", counted(task.attempts, "time")));
    }
    let of = task.owner.as_ref().or(task.chat.as_ref()).map(|owner| format!("of {owner}, ")).unwrap_or_default();
    out.push_str(&format!("\n{of}created by session {session} {}\n", ago(now_ms, task.created_ms)));
    out.push_str(&block("text", &task.text));
    out.push_str(&block("last report", task.note.as_deref().unwrap_or_default()));
    out.push_str(&block("said", task.said.as_deref().unwrap_or_default()));
    out.push('\n');
    for event in events {
        let said = one_line(&event.said, TITLE_CHARS_MAX);
        out.push_str(format!("{} ({})  {said}", event.event, ago(now_ms, event.at_ms)).trim_end());
        out.push('\n');
    }
    out
}

/// Formats a text under its name; empty if there is none.
fn block(name: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let lines: String = text.lines().map(|line| format!("  {}\n", line.replace(|c: char| !is_shown(c), ""))).collect();
    format!("\n{name}\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(state: &str) -> TaskInfo {
        serde_json::from_value(serde_json::json!({
            "id": "tabc123", "kind": "task", "title": "mend the roof", "text": "before\nit rains", "state": state,
            "attempts": 1, "said": "tight again", "owner": "one:7", "session": "20260101_1", "created_ms": 1_000,
            "changed_ms": 6_000,
        }))
        .unwrap()
    }

    #[test]
    fn tasks_are_listed_with_how_they_stand() {
        assert_eq!(
            listing(&[info("completed")], 11_000),
            "TASK     TITLE          KIND  STATE      OF     CHANGED  SAID\n\
             tabc123  mend the roof  task  completed  one:7  5 s ago  tight again\n"
        );
        assert!(listing(&[], 0).starts_with("no open tasks"));
    }

    #[test]
    fn a_command_in_the_background_is_listed_with_its_conversation_and_since_when() {
        let mut command = info("running");
        (command.kind, command.title) = ("command".to_owned(), "sleep 9".to_owned());
        (command.owner, command.said) = (None, None);
        command.chat = Some("agent:main:one:dm:7".to_owned());
        let shown = listing(&[command], 66_000);
        let row = "tabc123  sleep 9  command  running  agent:main:one:dm:7  60 s ago";
        assert_eq!(shown.lines().nth(1).map(str::trim_end), Some(row), "{shown}");
    }

    #[test]
    fn a_task_is_shown_with_what_happened_to_it() {
        let event =
            |event: &str, said: &str| TaskEventInfo { at_ms: 6_000, event: event.to_owned(), said: said.to_owned() };
        let events = [event("created", ""), event("completed", "tight again")];
        assert_eq!(
            shown(&info("completed"), &events, 11_000),
            "tabc123  mend the roof\ntask, completed, tried 1 time\nof one:7, created by session 20260101_1 10 s \
             ago\n\n\
             text\n  before\n  it rains\n\nsaid\n  tight again\n\ncreated (5 s ago)\ncompleted (5 s ago)  tight again\n"
        );
    }
}
