//! The summary of a conversation, written by the agent: in one request if it fits, otherwise piece by piece.
//!
//! Each piece is summed up together with the summary of what came before it. A piece that the model cannot read is
//! halved, so that any conversation comes to an end, whatever the model's window.

use std::collections::VecDeque;
use std::sync::Arc;

use hermes_agent::{CONTEXT_TOO_LONG, EventSink, Message, Role, TurnOutcome, TurnRequest};
use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use hermes_protocol::Usage;
use tokio_util::sync::CancellationToken;

use crate::engine::context;
use crate::engine::runtime::Host;

/// The first size of a piece, in characters.
const PIECE_CHARS: usize = 60_000;

/// The smallest size of a piece; a model that cannot read that much gets no summary.
const PIECE_CHARS_MIN: usize = 1_000;

/// Characters of a tool's result that a piece shows.
const RESULT_CHARS: usize = 500;

const INSTRUCTION: &str = "Write a summary of the conversation so far. The summary replaces the conversation. Keep \
    decisions, findings, open questions, names, numbers, paths, and the goals and preferences of the user. Write plain \
    text, without a greeting and without comments on the summary itself.";

/// A summary and its cost, or the reason why there is none.
pub type Summary = Result<(String, Usage), String>;

/// A conversation to summarize.
pub struct Original {
    /// The session.
    pub session: SessionId,
    /// The model that writes the summary; `None`: the default.
    pub model: Option<String>,
    /// The summary of the messages before `messages`.
    pub earlier: Option<String>,
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The focus of the summary; may be empty.
    pub about: String,
    /// True if the conversation is known to be longer than the model's window.
    pub outgrown: bool,
}

/// The failure of one request.
enum Fault {
    TooLong,
    Other(String),
}

/// Writes the summary.
pub async fn sum_up(host: Arc<Host>, original: Original, cancel: CancellationToken) -> Summary {
    let Ok(_room) = Arc::clone(&host.turns).acquire_owned().await else {
        return Err("the host is stopping".to_owned());
    };
    let mut usage = Usage::default();
    if !original.outgrown {
        match whole(&host, &original, &cancel, &mut usage).await {
            Ok(summary) => return Ok((summary, usage)),
            Err(Fault::Other(why)) => return Err(why),
            Err(Fault::TooLong) => {}
        }
    }
    let mut rest: VecDeque<String> = original.messages.iter().filter_map(|message| line(message)).collect();
    let mut summary = original.earlier.clone();
    let mut size = PIECE_CHARS;
    while !rest.is_empty() {
        let (piece, count) = piece(&rest, size);
        match one(&host, &original, summary.as_deref(), &piece, &cancel, &mut usage).await {
            Ok(next) => {
                summary = Some(next);
                rest.drain(..count);
            }
            Err(Fault::TooLong) if size / 2 >= PIECE_CHARS_MIN => size = piece.chars().count().min(size) / 2,
            Err(Fault::TooLong) => {
                return Err("even a small part of it exceeds the context window of the model".to_owned());
            }
            Err(Fault::Other(why)) => return Err(why),
        }
    }
    summary.map(|summary| (summary, usage)).ok_or_else(|| "there is nothing to summarize".to_owned())
}

/// Summarizes the whole conversation with one request.
async fn whole(
    host: &Arc<Host>,
    original: &Original,
    cancel: &CancellationToken,
    usage: &mut Usage,
) -> Result<String, Fault> {
    let mut request = request(original, instruction(original));
    request.system = context::with_summary(String::new(), original.earlier.as_deref());
    request.history.clone_from(&original.messages);
    ask(host, request, cancel, usage).await
}

/// Summarizes a piece, together with the summary of the earlier ones.
async fn one(
    host: &Arc<Host>,
    original: &Original,
    earlier: Option<&str>,
    piece: &str,
    cancel: &CancellationToken,
    usage: &mut Usage,
) -> Result<String, Fault> {
    let earlier = earlier.map(|earlier| format!("\n\nThe summary of the earlier part:\n{earlier}")).unwrap_or_default();
    let text = format!("{}{earlier}\n\nThe conversation:\n\n{piece}", instruction(original));
    ask(host, request(original, text), cancel, usage).await
}

async fn ask(
    host: &Arc<Host>,
    request: TurnRequest,
    cancel: &CancellationToken,
    usage: &mut Usage,
) -> Result<String, Fault> {
    let (sink, mut said, line) = EventSink::with_line();
    let unheard = async { while said.recv().await.is_some() {} };
    let (outcome, ()) = tokio::join!(host.runtime.run(request, sink, cancel.clone()), unheard);
    match outcome {
        // Part of it did not fit, so the summary lacks that part.
        TurnOutcome::Finished { .. } if line.left_out() > 0 => Err(Fault::TooLong),
        TurnOutcome::Finished { text, usage: cost, .. } if !text.trim().is_empty() => {
            usage.input_tokens = usage.input_tokens.saturating_add(cost.input_tokens);
            usage.output_tokens = usage.output_tokens.saturating_add(cost.output_tokens);
            usage.api_calls = usage.api_calls.saturating_add(cost.api_calls);
            Ok(text)
        }
        TurnOutcome::Finished { .. } => Err(Fault::Other("the agent wrote no summary".to_owned())),
        TurnOutcome::Interrupted { .. } => Err(Fault::Other("it was interrupted".to_owned())),
        TurnOutcome::Failed(failure) if failure.kind == CONTEXT_TOO_LONG => Err(Fault::TooLong),
        TurnOutcome::Failed(failure) => Err(Fault::Other(failure.sentence)),
    }
}

fn instruction(original: &Original) -> String {
    match original.about.as_str() {
        "" => INSTRUCTION.to_owned(),
        about => format!("{INSTRUCTION} Focus on this: {about}"),
    }
}

fn request(original: &Original, input: String) -> TurnRequest {
    let session = original.session.clone();
    TurnRequest {
        session_id: session.clone(),
        turn_id: TurnId::default(),
        context: TurnContext { session_id: Some(session), ..TurnContext::default() },
        system: String::new(),
        history: Vec::new(),
        input: vec![Message::user(input)],
        media: None,
        model: original.model.clone(),
        reasoning: None,
        state: None,
        steps: Vec::new(),
        tools: false,
    }
}

/// Returns a message as a line of the conversation; `None`: it has no content.
fn line(message: &Message) -> Option<String> {
    let content = message.content.trim();
    let speaker = match message.role {
        Role::System => "Note",
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tool result",
    };
    let max = if message.role == Role::Tool { RESULT_CHARS } else { usize::MAX };
    (!content.is_empty()).then(|| format!("{speaker}: {}", cut(content, max)))
}

/// Returns the next lines that fit into `size` characters, and their number: at least one, which is cut if necessary.
fn piece(rest: &VecDeque<String>, size: usize) -> (String, usize) {
    let mut piece = String::new();
    let (mut chars, mut count) = (0, 0);
    for line in rest {
        let length = line.chars().count();
        if count > 0 && chars + length > size {
            break;
        }
        piece.push_str(&cut(line, size));
        piece.push('\n');
        chars += length;
        count += 1;
    }
    (piece, count)
}

/// Returns the beginning and the end of a text that is longer than `max` characters.
fn cut(text: &str, max: usize) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let (head, tail) = (max - max / 4, max / 4);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{begin} [… {} characters omitted …] {end}", length - head - tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_whole_lines_and_only_one_that_is_too_long_is_cut() {
        let rest: VecDeque<String> = ["a".repeat(40), "b".repeat(40), "c".repeat(400)].into();
        assert_eq!(piece(&rest, 100).1, 2);
        assert_eq!(piece(&rest, 10).1, 1);
        let long: VecDeque<String> = rest.into_iter().skip(2).collect();
        let (text, count) = piece(&long, 100);
        assert!(count == 1 && text.contains("300 characters omitted"), "{text}");
        assert_eq!(cut("äöü", 3), "äöü");
    }

    #[test]
    fn a_result_of_a_tool_is_shortened_and_an_empty_message_left_out() {
        let result = line(&Message::new(Role::Tool, "x".repeat(9_000))).unwrap();
        assert!(result.starts_with("Tool result: x") && result.len() < 700, "{result}");
        assert_eq!(line(&Message::assistant(" \n")), None);
    }
}
