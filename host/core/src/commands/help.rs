//! Help and menus, written from the table.

use hermes_protocol::CommandInfo;

use super::{Command, Place, REGISTRY};
use crate::access::Tier;

/// Returns the help of what somebody may run here, as house markdown. `may_run` is
/// asked for each command, so that a command the operator listed is shown too.
pub fn help(place: Place, may_run: impl Fn(&Command) -> bool) -> String {
    let mut text = String::new();
    for command in REGISTRY.iter().filter(|command| command.scope.includes(place) && may_run(command)) {
        text.push_str(&line(command));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
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

/// Returns the menu that a platform shows to everybody: what users may run in any chat.
pub fn menu() -> Vec<CommandInfo> {
    REGISTRY
        .iter()
        .filter(|command| command.tier == Tier::User && command.scope == super::Scope::Everywhere)
        .map(|command| CommandInfo::new(command.name, command.help, command.args))
        .collect()
}

/// Returns the whole table for the documentation, as markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "| command | also | for | where | while a turn runs | what it does |\n|---|---|---|---|---|---|\n",
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
            "| `/{}{gap}{}` | {} | {}s | {place} | {} | {} |\n",
            command.name,
            // A bar would end the cell.
            command.args.replace('|', "\\|"),
            aliases.join(", "),
            command.tier,
            if command.bypasses { "yes" } else { "no" },
            command.help,
        ));
    }
    text
}

fn line(command: &Command) -> String {
    let gap = if command.args.is_empty() { "" } else { " " };
    format!("- `/{}{gap}{}`: {}", command.name, command.args, command.help)
}
