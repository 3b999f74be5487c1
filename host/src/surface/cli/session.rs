//! `session`: conversations.

mod export;

use std::io::{self, BufRead, IsTerminal, Write};

use super::args::{Listed, SessionCommand};
use super::ask::{self, print, print_json, unexpected};
use super::table::{Table, ago};
use super::{Context, Failure};
use crate::engine::operator::{ControlReply, ControlRequest, MessageInfo, SessionInfo};
use hermes_core::clock::Clock;
use hermes_core::text::{counted, one_line};
use hermes_system::clock::SystemClock;

pub async fn session(context: &Context, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List { all, shown } => list(context, all, shown).await,
        SessionCommand::Show { session, limit, json } => show(context, session, limit, json).await,
        SessionCommand::Search { words, limit, json } => search(context, words.join(" "), limit, json).await,
        SessionCommand::Export { session, format, output } => {
            export::export(context, session, &format, output.as_deref()).await
        }
        SessionCommand::End { session } => ask::done(context, &ControlRequest::SessionEnd { session }).await,
        SessionCommand::Delete { session, yes } => {
            if !yes {
                confirm(&format!("permanently delete the session {session:?} and its messages? [y/N] "))?;
            }
            ask::done(context, &ControlRequest::SessionDelete { session }).await
        }
    }
}

async fn list(context: &Context, all: bool, Listed { limit, json }: Listed) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::SessionList { limit, all }).await?;
    let ControlReply::Sessions { sessions } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(sessions);
    }
    let now_ms = SystemClock.now_ms();
    let mut table = Table::new(&["SESSION", "TITLE", "FROM", "MESSAGES", "USED", "ENDED"]);
    for session in sessions {
        table.row([
            session.id.clone(),
            session.title.clone().unwrap_or_default(),
            session.source.clone(),
            session.messages.to_string(),
            ago(now_ms, session.last_ms),
            ended(session),
        ]);
    }
    print(&table.render("no open sessions; --all also shows ended ones"))
}

async fn show(context: &Context, session: String, limit: u32, json: bool) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::SessionShow { session, limit }).await?;
    let ControlReply::Session { session, messages } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(&serde_json::json!({ "session": session, "messages": messages }));
    }
    print(&transcript(session, messages, SystemClock.now_ms()))
}

fn transcript(session: &SessionInfo, messages: &[MessageInfo], now_ms: i64) -> String {
    let title = session.title.as_ref().map_or_else(String::new, |title| format!("  {}", one_line(title, 80)));
    let mut out = format!("{}{title}\nfrom {}, {}", session.id, session.source, counted(session.messages, "message"));
    if session.ended_ms.is_some() {
        out.push_str(&format!(", ended ({})", ended(session)));
    }
    out.push('\n');
    for message in messages {
        out.push_str(&format!("\n{} ({})\n", message.role, ago(now_ms, message.at_ms)));
        for line in message.content.lines() {
            // Control characters of a message must not reach the terminal.
            out.push_str(&format!("  {}\n", line.replace(|c: char| c.is_control() && c != '\t', "")));
        }
    }
    out
}

fn ended(session: &SessionInfo) -> String {
    match (session.ended_ms, &session.end_reason) {
        (Some(_), Some(reason)) => reason.clone(),
        (Some(_), None) => "ended".to_owned(),
        (None, _) => String::new(),
    }
}

async fn search(context: &Context, query: String, limit: u32, json: bool) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::SessionSearch { query, limit }).await?;
    let ControlReply::Hits { hits } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(hits);
    }
    let now_ms = SystemClock.now_ms();
    let mut table = Table::new(&["SESSION", "TITLE", "WHO", "WHEN", "WORDS"]);
    for hit in hits {
        table.row([
            hit.session.clone(),
            hit.title.clone().unwrap_or_default(),
            hit.role.clone(),
            ago(now_ms, hit.at_ms),
            hit.snippet.clone(),
        ]);
    }
    print(&table.render("no message contains these words"))
}

/// Asks for confirmation; a script has to pass `--yes`.
fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("not a terminal, so confirmation is not possible; add --yes to confirm"));
    }
    let mut answer = String::new();
    let asked = io::stderr().write_all(question.as_bytes()).and_then(|()| io::stdin().lock().read_line(&mut answer));
    match asked {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) => Ok(()),
        _ => Err(Failure::failed("nothing was deleted")),
    }
}
