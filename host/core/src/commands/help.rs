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

fn line(command: &Command) -> String {
    let gap = if command.args.is_empty() { "" } else { " " };
    format!("- `/{}{gap}{}`: {}", command.name, command.args, command.help)
}
