//! Help texts and menus, generated from the command table.

use hermes_protocol::CommandInfo;

use super::{Command, Gates, Place, REGISTRY, values};
use crate::access::Tier;

/// Returns the help for the commands that a person may run here, one line of house markdown each. `may_run` is
/// called for each command, so that commands that the operator listed appear too.
pub fn help_lines(place: Place, gates: &Gates, may_run: impl Fn(&Command) -> bool) -> Vec<String> {
    let shown = |command: &&Command| command.scope.includes(place) && gates.is_open(command) && may_run(command);
    REGISTRY.iter().filter(shown).map(line).collect()
}

/// Splits lines into pages, each as full as `fits` allows. `fits` receives whole pages, including the last line
/// with the page number. A line that fits on no page gets its own page.
pub fn pages(lines: &[String], fits: impl Fn(&str) -> bool) -> Vec<String> {
    let whole = lines.join("\n");
    if fits(&whole) {
        return vec![whole];
    }
    let mut pages: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        let joins = pages.last().is_some_and(|page| {
            let longer: Vec<&str> = page.iter().copied().chain([line.as_str()]).collect();
            // The longest last line that a page can have.
            fits(&page_of(&longer, lines.len(), lines.len() + 1))
        });
        match pages.last_mut() {
            Some(page) if joins => page.push(line),
            _ => pages.push(vec![line]),
        }
    }
    let of = pages.len();
    pages.iter().zip(1..).map(|(page, n)| page_of(page, n, of)).collect()
}

/// Formats one page with its page number.
fn page_of(lines: &[&str], n: usize, of: usize) -> String {
    let place = match n == of {
        true => format!("Page {n} of {of} (last page)."),
        false => format!("Page {n} of {of}. `/commands {}` shows the next.", n + 1),
    };
    format!("{}\n\n{place}", lines.join("\n"))
}

/// Returns the help of one command, as house markdown.
pub fn help_for(command: &Command) -> String {
    let mut text = line(command);
    if !command.aliases.is_empty() {
        let aliases: Vec<String> = command.aliases.iter().map(|alias| format!("`/{alias}`")).collect();
        text.push_str(&format!("\nAlso {}.", aliases.join(", ")));
    }
    if command.tier > Tier::User {
        text.push_str(&format!("\nFor {}s.", command.tier));
    }
    text
}

/// Returns the menu that a platform shows to everyone: the commands that users may run in any chat.
pub fn menu(gates: &Gates) -> Vec<CommandInfo> {
    REGISTRY
        .iter()
        .filter(|command| command.tier == Tier::User && command.scope == super::Scope::Everywhere)
        .filter(|command| gates.is_open(command))
        .map(info)
        .collect()
}

/// Returns the menu of one person: the commands that the person may run here.
pub fn menu_for(place: Place, gates: &Gates, may_run: impl Fn(&Command) -> bool) -> Vec<CommandInfo> {
    let shown = |command: &&Command| command.scope.includes(place) && gates.is_open(command) && may_run(command);
    REGISTRY.iter().filter(shown).map(info).collect()
}

fn info(command: &Command) -> CommandInfo {
    CommandInfo::new(command.name, command.help, command.args).with_values(values(command.id).iter().copied())
}

/// Returns the whole table for the documentation, as markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "| command | also | for | where | while a turn runs | config key | what it does |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for command in REGISTRY {
        let gap = if command.args.is_empty() { "" } else { " " };
        let aliases: Vec<String> = command.aliases.iter().map(|alias| format!("`/{alias}`")).collect();
        let place = match command.scope {
            super::Scope::Everywhere => "everywhere",
            super::Scope::Private => "direct messages",
            super::Scope::Terminal => "the terminal",
        };
        text.push_str(&format!(
            "| `/{}{gap}{}` | {} | {}s | {place} | {} | {} | {} |\n",
            command.name,
            // A vertical bar would end the table cell.
            command.args.replace('|', "\\|"),
            aliases.join(", "),
            command.tier,
            if command.bypasses { "yes" } else { "no" },
            command.gate.map(|key| format!("`{key}`")).unwrap_or_default(),
            command.help,
        ));
    }
    text
}

fn line(command: &Command) -> String {
    let gap = if command.args.is_empty() { "" } else { " " };
    format!("- `/{}{gap}{}`: {}", command.name, command.args, command.help)
}
