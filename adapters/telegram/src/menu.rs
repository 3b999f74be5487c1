//! The command menu that Telegram shows next to the text field.

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

/// The maximum number of commands in a menu. <https://core.telegram.org/bots/api#setmycommands>
const COMMANDS_MAX: usize = 100;
/// The maximum length of a command's name, in bytes. <https://core.telegram.org/bots/api#botcommand>
const NAME_BYTES_MAX: usize = 32;
/// The maximum length of a command's description, in characters.
const HELP_CHARS_MAX: usize = 256;

/// Returns the menu entries. A command whose name Telegram does not allow is left out; it still works when typed.
pub(crate) fn entries(commands: &[CommandInfo]) -> Vec<Value> {
    let entry = |command: &CommandInfo| {
        let name = command.name.to_ascii_lowercase().replace('-', "_");
        let is_name = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let help: String = command.help.chars().take(HELP_CHARS_MAX).collect();
        (is_name && !help.is_empty()).then(|| json!({ "command": name, "description": help }))
    };
    commands.iter().filter_map(entry).take(COMMANDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_menu_holds_what_the_platform_takes_and_no_more() {
        let commands = [
            CommandInfo::new("set-home", "Answer here", ""),
            CommandInfo::new("x".repeat(33), "too long", ""),
            CommandInfo::new("ünder", "no letter of theirs", ""),
            CommandInfo::new("mute", "", ""),
            CommandInfo::new("long", "h".repeat(300), ""),
        ];
        let entries = entries(&commands);
        assert_eq!(entries[0], json!({ "command": "set_home", "description": "Answer here" }));
        assert_eq!((entries.len(), entries[1]["description"].as_str().unwrap().len()), (2, HELP_CHARS_MAX));
        assert_eq!(super::entries(&vec![CommandInfo::new("a", "b", ""); 120]).len(), COMMANDS_MAX);
    }
}
