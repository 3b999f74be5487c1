//! The lines that a terminal shows. Creating them needs no terminal.
//!
//! The screen remembers the shown text of each running turn. The final text of an answer is always delivered; only its
//! missing part is shown.

use hermes_protocol::{Choices, Outgoing, Purpose, TurnEvent};

use super::markdown::{Flow, Look};
use hermes_core::text::{is_shown, one_line};

/// Turns whose shown text is remembered.
const TURNS_MAX: usize = 16;

/// The remembered text of one answer, in bytes. A longer answer is shown again when it is delivered.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The longest progress line of a turn, in characters.
const PROGRESS_CHARS_MAX: usize = 200;

/// The shown text, and the lines that wait to be shown.
#[derive(Debug, Default)]
pub struct Screen {
    look: Look,
    turns: Vec<Turn>,
    lines: Vec<String>,
    /// The last progress line of a turn.
    progress: String,
}

/// The shown text of one turn.
#[derive(Debug)]
struct Turn {
    inbox: i64,
    flow: Flow,
    said: String,
    /// `true` if it was shown from its beginning.
    whole: bool,
    runs: bool,
}

impl Screen {
    /// Creates an empty screen.
    pub fn new(look: Look) -> Self {
        Self { look, ..Self::default() }
    }

    /// Sets the current width of the terminal, in columns.
    pub fn set_width(&mut self, width: usize) {
        if self.look.width > 0 {
            self.look.width = width.max(20);
        }
    }

    /// Takes the waiting lines, each with its line end; empty if there are none.
    pub fn take(&mut self) -> String {
        let lines = std::mem::take(&mut self.lines);
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// Returns the inbox id of the running turn.
    pub fn running(&self) -> Option<i64> {
        self.turns.iter().rev().find(|turn| turn.runs).map(|turn| turn.inbox)
    }

    /// Forgets all turns, because the connection ended.
    pub fn cut(&mut self) {
        self.rest_of_all();
        self.turns.clear();
    }

    /// Adds a note of the terminal itself.
    pub fn note(&mut self, text: &str) {
        self.rest_of_all();
        for line in text.lines() {
            let line: String = line.chars().filter(|char| is_shown(*char)).collect();
            self.lines.push(self.dim(&line));
        }
    }

    /// Adds an earlier message of a continued conversation.
    pub fn before(&mut self, role: &str, text: &str) {
        let mark = if role == "user" { "> " } else { "" };
        let mut flow = Flow::new(Look { styled: false, ..self.look });
        let mut lines = flow.feed(text);
        lines.extend(flow.finish());
        let lines: Vec<String> = lines.iter().map(|line| self.dim(&format!("{mark}{line}"))).collect();
        self.lines.extend(lines);
        self.lines.push(String::new());
    }

    /// Shows an event of a turn.
    pub fn turn_event(&mut self, inbox: i64, seq: u64, event: &TurnEvent) {
        if event.is_last() {
            let turn = self.turn(inbox, seq);
            turn.runs = false;
            let (rest, silent) = (turn.flow.finish(), turn.said.trim().is_empty());
            self.lines.extend(rest);
            self.progress.clear();
            // Earlier text of the turn is delivered with its own note of the interruption.
            if matches!(event, TurnEvent::Done { finish_reason, .. } if finish_reason == "stopped" && silent) {
                self.note("(stopped)");
            }
            return;
        }
        let turn = self.turn(inbox, seq);
        turn.runs = true;
        match event {
            TurnEvent::Chunk { text } => {
                if turn.said.len() < ANSWER_BYTES_MAX {
                    turn.said.push_str(text);
                } else {
                    turn.whole = false;
                }
                // The rest of an answer without its beginning is not shown; the answer is delivered as a whole.
                if turn.whole {
                    let lines = turn.flow.feed(text);
                    self.lines.extend(lines);
                }
            }
            TurnEvent::Progress { text, .. } => {
                let rest = turn.flow.finish();
                self.lines.extend(rest);
                let text = one_line(text, PROGRESS_CHARS_MAX);
                if !text.is_empty() && text != self.progress {
                    let line = self.dim(&format!("· {text}"));
                    self.lines.push(line);
                    self.progress = text;
                }
            }
            _ => {}
        }
    }

    /// Shows a delivery.
    pub fn delivered(&mut self, message: &Outgoing) {
        let answers = message.in_reply_to.filter(|_| message.purpose == Purpose::Reply);
        let shown = answers.and_then(|inbox| self.turns.iter_mut().find(|turn| turn.inbox == inbox));
        let text = match shown {
            Some(turn) => {
                let rest = missing(&turn.said, turn.whole, &message.text).map(str::to_owned);
                turn.said.clear();
                if rest.as_deref().is_none_or(|rest| rest.len() == message.text.len()) {
                    let end = turn.flow.finish();
                    self.lines.extend(end);
                } else if let Some(rest) = &rest {
                    // The text continues in the middle of a shown line.
                    let mut lines = turn.flow.feed(rest.trim_start_matches('\n'));
                    lines.extend(turn.flow.finish());
                    self.lines.extend(lines);
                    return;
                }
                rest
            }
            None => Some(message.text.clone()),
        };
        let Some(text) = text else { return };
        self.rest_of_all();
        let quiet = message.purpose == Purpose::Notice;
        let mut flow = Flow::new(Look { styled: self.look.styled && !quiet, ..self.look });
        let mut lines = flow.feed(&text);
        lines.extend(flow.finish());
        if quiet {
            lines = lines.iter().map(|line| self.dim(line)).collect();
        }
        self.lines.extend(lines);
        if let Some(choices) = &message.choices {
            self.question(choices);
        }
    }

    fn question(&mut self, choices: &Choices) {
        for (number, option) in (1..).zip(&choices.options) {
            self.lines.push(format!("  {number}. {}", one_line(&option.label, PROGRESS_CHARS_MAX)));
        }
        let line = self.dim("Answer with a number or a word.");
        self.lines.push(line);
    }

    /// Ends the incomplete lines, so that other text can be shown.
    fn rest_of_all(&mut self) {
        for turn in &mut self.turns {
            self.lines.extend(turn.flow.finish());
        }
    }

    fn turn(&mut self, inbox: i64, seq: u64) -> &mut Turn {
        if let Some(at) = self.turns.iter().position(|turn| turn.inbox == inbox) {
            return &mut self.turns[at];
        }
        if self.turns.len() >= TURNS_MAX {
            self.turns.remove(0);
        }
        let flow = Flow::new(self.look);
        self.turns.push(Turn { inbox, flow, said: String::new(), whole: seq == 1, runs: true });
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    fn dim(&self, line: &str) -> String {
        if self.look.styled && !line.is_empty() { format!("\x1b[2m{line}\x1b[0m") } else { line.to_owned() }
    }
}

/// Returns the part of a text that is not on the screen; `None` if all of it is.
fn missing<'t>(said: &str, whole: bool, text: &'t str) -> Option<&'t str> {
    let (said, wanted) = (said.trim_end(), text.trim_end());
    if said.is_empty() || !whole {
        return Some(text);
    }
    // Text before a tool call is not part of the last answer, and was shown.
    if said.ends_with(wanted) {
        return None;
    }
    Some(wanted.strip_prefix(said).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{Chat, ChoiceOption};

    use super::*;

    fn chunk(text: &str) -> TurnEvent {
        TurnEvent::Chunk { text: text.to_owned() }
    }

    fn began() -> TurnEvent {
        TurnEvent::Metadata { session_id: "s".into(), turn_id: 1, model: String::new(), runtime: String::new() }
    }

    fn ended(why: &str) -> TurnEvent {
        serde_json::from_value(serde_json::json!({ "type": "done", "finish_reason": why })).unwrap()
    }

    fn answer(inbox: i64, text: &str) -> Outgoing {
        let mut message = Outgoing::text(Chat::dm("1"), text);
        message.purpose = Purpose::Reply;
        message.in_reply_to = Some(inbox);
        message
    }

    #[test]
    fn an_answer_that_was_streamed_is_not_shown_again() {
        let mut screen = Screen::new(Look::default());
        for (seq, event) in (1..).zip([began(), chunk("one\ntw"), chunk("o")]) {
            screen.turn_event(7, seq, &event);
        }
        assert_eq!((screen.take().as_str(), screen.running()), ("one\n", Some(7)));
        screen.turn_event(7, 4, &ended("stop"));
        screen.delivered(&answer(7, "one\ntwo"));
        assert_eq!((screen.take().as_str(), screen.running()), ("two\n", None));
    }

    #[test]
    fn what_was_not_streamed_of_an_answer_is_shown_when_it_is_delivered() {
        let mut screen = Screen::new(Look::default());
        screen.turn_event(7, 1, &began());
        screen.turn_event(7, 2, &chunk("one"));
        screen.delivered(&answer(7, "one two\n\n`m-1`"));
        assert_eq!(screen.take(), "one two\n\n`m-1`\n");
        // Seen from its middle, and with another text than the streamed one.
        screen.turn_event(8, 5, &chunk("half"));
        screen.delivered(&answer(8, "a half"));
        assert_eq!(screen.take(), "a half\n");
        screen.delivered(&answer(9, "never heard of"));
        assert_eq!(screen.take(), "never heard of\n");
    }

    #[test]
    fn what_a_turn_does_stands_between_its_words_once() {
        let mut screen = Screen::new(Look { styled: true, width: 0 });
        let progress = |text: &str| TurnEvent::Progress { stage: "tool".into(), text: text.into(), tool: None };
        for (seq, event) in
            (1..).zip([began(), chunk("let me "), progress("reads\x1b[2J x"), progress("reads\x1b[2J x"), chunk("ok")])
        {
            screen.turn_event(7, seq, &event);
        }
        screen.turn_event(7, 6, &ended("stopped"));
        screen.delivered(&answer(7, "let me ok\n\n(interrupted)"));
        assert_eq!(screen.take(), "let me\n\x1b[2m· reads[2J x\x1b[0m\nok\n(interrupted)\n");
        screen.turn_event(8, 1, &began());
        screen.turn_event(8, 2, &ended("stopped"));
        assert_eq!(screen.take(), "\x1b[2m(stopped)\x1b[0m\n", "nothing else says it");
    }

    #[test]
    fn a_question_lists_its_options() {
        let mut screen = Screen::new(Look::default());
        let mut ask = answer(7, "May I?");
        ask.purpose = Purpose::Ask;
        let options = vec![ChoiceOption::new("once", "Once"), ChoiceOption::new("no", "No\nway")];
        ask.choices = Some(Choices::new("a", options, 0));
        screen.delivered(&ask);
        assert_eq!(screen.take(), "May I?\n  1. Once\n  2. No way\nAnswer with a number or a word.\n");
    }
}
