//! Slash commands, and their meaning.

/// A slash command. <https://docs.slack.dev/interactivity/implementing-slash-commands#app_command_handling>
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlashCommand {
    /// The command, such as `/hermes`.
    pub command: String,
    /// The text after the command.
    pub text: String,
}

/// Returns the meaning of a slash command.
pub(crate) fn meaning(command: &SlashCommand, own: &str, commands: Option<&[String]>) -> String {
    if !command.command.eq_ignore_ascii_case(own) {
        return format!("{} {}", command.command, command.text).trim().to_owned();
    }
    let text = command.text.strip_prefix(['/', '!']).unwrap_or(&command.text);
    if text.is_empty() {
        return "/help".to_owned();
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_marked = text.len() < command.text.len();
    let is_known = commands.is_none_or(|commands| commands.iter().any(|name| name.eq_ignore_ascii_case(first)));
    if is_marked || is_known { format!("/{text}") } else { command.text.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_slash_command_says_a_command_or_words() {
        let commands = ["status".to_owned(), "new".to_owned()];
        let say = |command: &str, text: &str| {
            let slash = SlashCommand { command: command.to_owned(), text: text.to_owned() };
            meaning(&slash, "/hermes", Some(&commands))
        };
        assert_eq!(say("/hermes", ""), "/help");
        assert_eq!(say("/hermes", "status now"), "/status now");
        assert_eq!(say("/Hermes", "/n"), "/n", "an alias is in no menu");
        assert_eq!(say("/hermes", "!new"), "/new");
        assert_eq!(say("/hermes", "what is new"), "what is new");
        assert_eq!(say("/new", "about boats"), "/new about boats");
        let slash = SlashCommand { command: "/hermes".to_owned(), text: "n".to_owned() };
        assert_eq!(meaning(&slash, "/hermes", None), "/n", "a host that tells no commands judges itself");
    }
}
