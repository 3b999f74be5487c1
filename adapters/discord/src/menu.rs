//! The command menu that Discord shows after a slash.

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

/// The maximum number of commands.
/// <https://docs.discord.com/developers/interactions/application-commands#registering-a-command>
const COMMANDS_MAX: usize = 100;
/// The maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 32;
/// The maximum length of a description, in characters.
const HELP_CHARS_MAX: usize = 100;
/// The name of a command's argument: a single text, because only the host can parse it.
const OPTION: &str = "input";

/// Returns the menu entries. A command whose name Discord does not allow is left out; it still works when typed.
pub(crate) fn entries(commands: &[CommandInfo]) -> Vec<Value> {
    commands.iter().filter_map(entry).take(COMMANDS_MAX).collect()
}

/// <https://docs.discord.com/developers/interactions/application-commands#application-command-object>
fn entry(command: &CommandInfo) -> Option<Value> {
    let name = command.name.to_lowercase();
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.chars().count())
        && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    let help = shortened(&command.help);
    if !is_name || help.is_empty() {
        return None;
    }
    // Available in guilds and in direct messages with the bot.
    let mut entry = json!({ "type": 1, "name": name, "description": help, "contexts": [0, 1] });
    if !command.args.is_empty() {
        entry["options"] =
            json!([{ "type": 3, "name": OPTION, "description": shortened(&command.args), "required": false }]);
    }
    Some(entry)
}

fn shortened(text: &str) -> String {
    match text.trim().char_indices().nth(HELP_CHARS_MAX) {
        None => text.trim().to_owned(),
        Some(_) => text.trim().chars().take(HELP_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_menu_holds_what_the_platform_takes_and_no_more() {
        let commands = [
            CommandInfo::new("SetHome", "Answer here", ""),
            CommandInfo::new("x".repeat(33), "too long", ""),
            CommandInfo::new("two words", "no name", ""),
            CommandInfo::new("mute", "", ""),
            CommandInfo::new("title", "h".repeat(300), "[name]"),
        ];
        let entries = entries(&commands);
        assert_eq!(
            entries[0],
            json!({ "type": 1, "name": "sethome", "description": "Answer here", "contexts": [0, 1] })
        );
        assert_eq!((entries.len(), entries[1]["description"].as_str().unwrap().chars().count()), (2, HELP_CHARS_MAX));
        assert_eq!(entries[1]["options"][0]["name"], OPTION);
        assert_eq!(super::entries(&vec![CommandInfo::new("a", "b", ""); 120]).len(), COMMANDS_MAX);
    }
}
