//! The interpretation of typed lines: a command of the terminal itself, the answer to a question, or a message; and the
//! completion of a line.

use hermes_core::commands::{self, Command, CommandId, Gates, Parsed, Place};
use hermes_protocol::{ChoiceMade, Choices};

use super::editor::Sign;

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Leave.
    Quit,
    /// Hand the conversation off to the chat of an instance; empty: to the chat that sends a code.
    Handoff(String),
    /// Clear the screen.
    Redraw,
    /// Select the indicator of a working agent; `None`: list the indicators.
    Indicator(Option<Sign>),
    /// The answer to the open question.
    Choice(ChoiceMade),
    /// A message for the host.
    Said(String),
    /// Nothing.
    Nothing,
}

/// Interprets a line. `ask` is the open question.
pub fn read(line: &str, ask: Option<&Choices>) -> Typed {
    let text = unfolded(line);
    let text = text.trim();
    if text.is_empty() {
        return Typed::Nothing;
    }
    if let Some(choice) = ask.and_then(|ask| chosen(text, ask)) {
        return Typed::Choice(choice);
    }
    match commands::parse(text, "", &Gates::default()) {
        Parsed::Command { spec, args } => match spec.id {
            CommandId::Quit => Typed::Quit,
            CommandId::Handoff => Typed::Handoff(args.trim().to_owned()),
            CommandId::Redraw => Typed::Redraw,
            CommandId::Indicator => Typed::Indicator(Sign::named(args.trim())),
            _ => Typed::Said(text.to_owned()),
        },
        _ => Typed::Said(text.to_owned()),
    }
}

/// Returns `true` if the line continues below: it ends with a backslash.
pub fn goes_on(line: &str) -> bool {
    line.ends_with('\\')
}

/// Removes the backslashes of continued lines.
fn unfolded(line: &str) -> String {
    line.replace("\\\n", "\n")
}

/// Returns the option with this number, label or id.
fn chosen(text: &str, ask: &Choices) -> Option<ChoiceMade> {
    let by_number = text.parse::<usize>().ok().and_then(|number| ask.options.get(number.checked_sub(1)?));
    let by_word = || {
        ask.options
            .iter()
            .find(|option| option.label.trim().eq_ignore_ascii_case(text) || option.id.eq_ignore_ascii_case(text))
    };
    by_number.or_else(by_word).map(|option| ChoiceMade::new(ask.ask.as_str(), option.id.as_str()))
}

/// Returns the start of the word that is being typed, and its completions. `agents`: the ids of the last `/agents`
/// list.
pub fn completions(line: &str, instances: &[String], agents: &[String]) -> (usize, Vec<String>) {
    let Some(typed) = line.strip_prefix('/') else { return (line.len(), Vec::new()) };
    let open = |command: &&Command| command.scope.includes(Place::Terminal);
    let Some((name, args)) = typed.split_once(' ') else {
        let names = commands::REGISTRY.iter().filter(open).flat_map(names).filter(|name| name.starts_with(typed));
        let mut names: Vec<String> = names.map(|name| format!("/{name} ")).collect();
        names.sort();
        return (0, names);
    };
    let behind_stop = args.trim_start().strip_prefix("stop ").map(str::trim_start);
    let word = behind_stop.unwrap_or(args.trim_start());
    let start = line.len() - word.len();
    let values: Vec<&str> = match commands::parse(&format!("/{name}"), "", &Gates::default()) {
        Parsed::Command { spec, .. } if behind_stop.is_some() => match spec.id {
            CommandId::Agents => agents.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        },
        Parsed::Command { spec, .. } if spec.id == CommandId::Handoff => instances.iter().map(String::as_str).collect(),
        Parsed::Command { spec, .. } => commands::values(spec.id).to_vec(),
        _ => Vec::new(),
    };
    let fits = |value: &&str| value.starts_with(word);
    (start, values.into_iter().filter(fits).map(str::to_owned).collect())
}

fn names(command: &Command) -> impl Iterator<Item = &'static str> {
    std::iter::once(command.name).chain(command.aliases.iter().copied())
}

#[cfg(test)]
mod tests {
    use hermes_protocol::ChoiceOption;

    use super::*;

    #[test]
    fn the_terminals_own_orders_are_not_said() {
        assert_eq!(read("/quit", None), Typed::Quit);
        assert_eq!(read(" /exit ", None), Typed::Quit);
        assert_eq!(read("/redraw", None), Typed::Redraw);
        assert_eq!(read("/handoff telegram ", None), Typed::Handoff("telegram".to_owned()));
        assert_eq!(read("/indicator none", None), Typed::Indicator(Some(Sign::None)));
        assert_eq!(read("/indicator", None), Typed::Indicator(None));
        assert_eq!(read("/status", None), Typed::Said("/status".to_owned()));
        assert_eq!(read("/usr/bin/x", None), Typed::Said("/usr/bin/x".to_owned()));
        assert_eq!(read("one \\\ntwo", None), Typed::Said("one \ntwo".to_owned()));
        assert_eq!(read(" \n", None), Typed::Nothing);
    }

    #[test]
    fn a_question_is_answered_by_number_or_word() {
        let options = vec![ChoiceOption::new("o1", "Once"), ChoiceOption::new("no", "No, never")];
        let ask = Choices::new("q", options, 0);
        let choice = |option: &str| Typed::Choice(ChoiceMade::new("q", option));
        for (line, option) in [("1", "o1"), ("2", "no"), ("once", "o1"), ("NO", "no"), ("no, never", "no")] {
            assert_eq!(read(line, Some(&ask)), choice(option));
        }
        for line in ["0", "3", "perhaps", "/deny"] {
            assert_eq!(read(line, Some(&ask)), Typed::Said(line.to_owned()), "the host knows what it means");
        }
    }

    #[test]
    fn commands_and_their_words_are_completed() {
        let (start, words) = completions("/re", &[], &[]);
        assert_eq!(start, 0);
        assert!(words.contains(&"/resume ".to_owned()) && words.contains(&"/redraw ".to_owned()), "{words:?}");
        assert_eq!(completions("/busy st", &[], &[]), (6, vec!["steer".to_owned()]));
        assert_eq!(completions("/indicator ", &[], &[]), (11, vec!["dots".into(), "arrow".into(), "none".into()]));
        let instances = ["telegram".to_owned(), "slack".to_owned()];
        assert_eq!(completions("/handoff t", &instances, &[]), (9, vec!["telegram".to_owned()]));
        let agents = ["7", "p1ab", "tabc123"].map(str::to_owned);
        assert_eq!(completions("/agents s", &[], &agents), (8, vec!["stop".to_owned()]));
        assert_eq!(completions("/agents stop ", &[], &agents), (13, agents.to_vec()));
        assert_eq!(completions("/tasks stop t", &[], &agents), (12, vec!["tabc123".to_owned()]));
        assert_eq!(completions("/title stop t", &[], &agents).1, Vec::<String>::new());
        assert_eq!(completions("hello /re", &[], &[]).1, Vec::<String>::new());
        assert_eq!(completions("/nothing x", &[], &[]).1, Vec::<String>::new());
    }
}
