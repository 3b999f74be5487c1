//! The echo runtime, which repeats its input word by word. Tests the whole path without a network.
//!
//! With test words enabled, a message that begins with one of [`TEST_WORDS`] triggers special behaviour:
//!
//! | word | behaviour |
//! |---|---|
//! | `/slow [ms] text` | sends the text with a pause before each word (default 100 ms) |
//! | `/fail [text]` | sends the text, then the turn fails |
//! | `/hang [text]` | sends the text, then waits until the turn is stopped |
//! | `/long n` | sends an answer of n characters |
//! | `/empty` | sends an answer without text |
//! | `/panic` | the runtime panics |
//! | `/follow [text]` | sends the text and the first steering message, then ends |
//! | `/ask action` | requests approval for the action and sends the answer |
//! | `/danger action` | like `/ask`, for an action that a pattern marks as dangerous |
//! | `/choose question \| option \| …` | asks the question and sends the answer; a last option `+` accepts free text |
//! | `/helpers [text]` | like `/hang`, but the turn must not be interrupted because helpers are running |
//!
//! Without test words, such a message is echoed like any other.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hermes_protocol::Usage;
use tokio_util::sync::CancellationToken;

use crate::questions::{Answer, ApprovalRequest, TurnQuestion};
use crate::{AgentRuntime, EventSink, Failure, Hold, Message, TurnOutcome, TurnRequest};

/// First words of messages that trigger special behaviour.
pub const TEST_WORDS: [&str; 11] =
    ["/slow", "/fail", "/hang", "/long", "/empty", "/panic", "/follow", "/helpers", "/ask", "/danger", "/choose"];

/// Longest answer of `/long`, in characters.
const LONG_CHARS_MAX: usize = 1_000_000;

/// Longest pause of `/slow` before a word, in milliseconds.
const SLOW_MS_MAX: u64 = 60_000;

/// The echo runtime.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    test_words: bool,
    introduces: bool,
}

/// Last paragraph of the first answer of a conversation, if the echo runtime was not chosen explicitly.
pub const INTRODUCTION: &str = "(This is the echo agent: it repeats your messages because no model is configured. Set \
     OPENAI_API_KEY, or set `base_url` and `model` in the `[agent]` section of plugins.toml, and restart \
     hermes-host.)";

impl Echo {
    /// Creates an echo runtime. `test_words` enables [`TEST_WORDS`].
    pub fn new(test_words: bool) -> Self {
        Self { test_words, introduces: false }
    }

    /// With `true`, the first answer of each conversation ends with [`INTRODUCTION`], unless test words are enabled.
    #[must_use]
    pub fn introducing(self, introduces: bool) -> Self {
        Self { introduces, ..self }
    }
}

impl AgentRuntime for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn models(&self) -> Vec<String> {
        vec!["echo".to_owned()]
    }

    fn steers(&self) -> bool {
        self.test_words
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let mut plan = EchoPlan::of(&input_text(&request.input), self.test_words);
            if self.introduces && !self.test_words && request.history.is_empty() {
                plan.text = format!("{}\n\n{INTRODUCTION}", plan.text).trim_start().to_owned();
            }
            let mut sent = String::new();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                outcome = plan.run(&events, &mut sent) => return outcome,
            }
            TurnOutcome::Interrupted { text: sent }
        })
    }
}

/// Returns the text of the input and the names of its files.
fn input_text(input: &[Message]) -> String {
    let texts = input.iter().flat_map(|message| {
        let files = message.attachments.iter().map(|file| format!("[{}]", file.name));
        std::iter::once(message.content.clone()).chain(files)
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The text of an answer and the end of the turn.
#[derive(Debug, PartialEq, Eq)]
struct EchoPlan {
    text: String,
    pause: Duration,
    end: EchoEnd,
}

#[derive(Debug, PartialEq, Eq)]
enum EchoEnd {
    Finish,
    Fail,
    Hang,
    Panic,
    Follow,
    Helpers,
    Ask(TurnQuestion),
}

impl EchoPlan {
    fn of(input_text: &str, test_words: bool) -> Self {
        let plain = |text: &str| Self { text: text.to_owned(), pause: Duration::ZERO, end: EchoEnd::Finish };
        let (word, rest) = match test_word(input_text).filter(|_| test_words) {
            Some(found) => found,
            None => return plain(input_text),
        };
        match word {
            "/slow" => {
                let (first, others) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let (pause_ms, text) = first.parse().map_or((100, rest), |pause_ms: u64| (pause_ms, others));
                Self { pause: Duration::from_millis(pause_ms.min(SLOW_MS_MAX)), ..plain(text) }
            }
            "/fail" => Self { end: EchoEnd::Fail, ..plain(rest) },
            "/hang" => Self { end: EchoEnd::Hang, ..plain(rest) },
            "/long" => plain(&long(rest.trim().parse().unwrap_or(10_000))),
            "/follow" => Self { end: EchoEnd::Follow, ..plain(rest) },
            "/helpers" => Self { end: EchoEnd::Helpers, ..plain(rest) },
            "/ask" => Self { end: EchoEnd::Ask(approval_of(rest, None)), ..plain("") },
            "/danger" => Self { end: EchoEnd::Ask(approval_of(rest, Some("a test word"))), ..plain("") },
            "/choose" => Self { end: EchoEnd::Ask(choice_of(rest)), ..plain("") },
            "/panic" => Self { end: EchoEnd::Panic, ..plain("") },
            _ => plain(""),
        }
    }

    async fn run(self, events: &EventSink, sent: &mut String) -> TurnOutcome {
        for word in self.text.split_inclusive(char::is_whitespace) {
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            sent.push_str(word);
            events.chunk(word).await;
        }
        match self.end {
            EchoEnd::Finish => finished(self.text),
            EchoEnd::Fail => TurnOutcome::Failed(Failure {
                code: "runtime_failed",
                kind: "echo",
                sentence: "The echo runtime failed on request.".to_owned(),
                detail: "test word /fail".to_owned(),
                retryable: false,
                partial: self.text,
            }),
            EchoEnd::Hang => std::future::pending().await,
            EchoEnd::Helpers => {
                let _held = events.hold(Hold::Children);
                std::future::pending().await
            }
            EchoEnd::Follow => {
                events.wait_for_steering().await;
                let more = format!("\n{}", input_text(&events.take_steering().await));
                events.chunk(&*more).await;
                sent.push_str(&more);
                finished(std::mem::take(sent))
            }
            EchoEnd::Ask(ask) => {
                let answer = answer_text(&ask, events.ask(ask.clone()).await);
                events.chunk(&*answer).await;
                finished(answer)
            }
            EchoEnd::Panic => panic!("test word /panic"),
        }
    }
}

/// Returns the test word at the start of a message and the text after it. In shared conversations the message
/// begins with the sender's name: `[Ada] /slow`.
fn test_word(input_text: &str) -> Option<(&str, &str)> {
    fn split(text: &str) -> Option<(&str, &str)> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        TEST_WORDS.contains(&word).then_some((word, rest))
    }
    let behind_a_name = || {
        let names = input_text.starts_with('[').then(|| input_text.match_indices("] ")).into_iter().flatten();
        names.map(|(at, end)| &input_text[at + end.len()..]).find_map(split)
    };
    split(input_text).or_else(behind_a_name)
}

/// Creates an approval for `action`. Its kind is its first word.
fn approval_of(action: &str, danger: Option<&str>) -> TurnQuestion {
    let kind = action.split_whitespace().next().unwrap_or_default().to_owned();
    let why = "A test of the echo runtime.".to_owned();
    TurnQuestion::Approval(ApprovalRequest { kind, action: action.to_owned(), why, danger: danger.map(str::to_owned) })
}

/// Parses a question and its options, separated by vertical bars.
fn choice_of(text: &str) -> TurnQuestion {
    let mut words = text.split('|').map(|word| word.trim().to_owned());
    let question = words.next().unwrap_or_default();
    let mut options: Vec<String> = words.collect();
    let free = options.last().is_some_and(|last| last == "+");
    options.truncate(options.len() - usize::from(free));
    TurnQuestion::Choice { question, options, free }
}

/// Formats the answer to a question.
fn answer_text(ask: &TurnQuestion, answer: Answer) -> String {
    match (answer, ask) {
        (Answer::Approved(verdict), _) => format!("approved: {}", verdict.as_str()),
        (Answer::Denied { why: None }, _) => "denied".to_owned(),
        (Answer::Denied { why: Some(why) }, _) => format!("denied: {why}"),
        (Answer::Chosen(number), TurnQuestion::Choice { options, .. }) => {
            format!("chosen: {}", options.get(number).map(String::as_str).unwrap_or_default())
        }
        (Answer::Chosen(number), TurnQuestion::Approval(_)) => format!("chosen: {number}"),
        (Answer::Text(words), _) => format!("said: {words}"),
        (Answer::Unanswered, _) => "unanswered".to_owned(),
        (Answer::Gone, _) => "gone".to_owned(),
    }
}

fn finished(text: String) -> TurnOutcome {
    TurnOutcome::Finished {
        messages: vec![Message::assistant(text.clone())],
        text,
        usage: Usage::default(),
        finish_reason: "stop".to_owned(),
        model: "echo".to_owned(),
        state: None,
    }
}

/// Creates a text of numbered words, so that a lost or doubled piece is visible.
fn long(chars: usize) -> String {
    let chars = chars.min(LONG_CHARS_MAX);
    let mut text = String::with_capacity(chars + 8);
    for number in 1.. {
        if text.len() >= chars {
            break;
        }
        text.push_str(&number.to_string());
        text.push(' ');
    }
    text.truncate(chars);
    text
}

#[cfg(test)]
mod tests {
    use hermes_core::context::TurnContext;
    use hermes_core::ids::{SessionId, TurnId};
    use hermes_protocol::TurnEvent;

    use super::*;

    fn request(texts: &[&str]) -> TurnRequest {
        TurnRequest {
            session_id: SessionId("s1".to_owned()),
            turn_id: TurnId(1),
            context: TurnContext::default(),
            system: String::new(),
            history: Vec::new(),
            input: texts.iter().map(|text| Message::user(*text)).collect(),
            media: None,
            model: None,
            reasoning: None,
            state: None,
            steps: Vec::new(),
            tools: true,
        }
    }

    async fn answer(test_words: bool, texts: &[&str]) -> (TurnOutcome, Vec<String>) {
        let (sink, mut reader) = EventSink::channel();
        let collect = async {
            let mut chunks = Vec::new();
            while let Some(event) = reader.recv().await {
                if let TurnEvent::Chunk { text } = event {
                    chunks.push(text);
                }
            }
            chunks
        };
        let echo = Echo::new(test_words);
        tokio::join!(echo.run(request(texts), sink, CancellationToken::new()), collect)
    }

    #[tokio::test]
    async fn what_was_heard_comes_back_word_by_word() {
        let (outcome, chunks) = answer(false, &["hello  big", "world"]).await;
        assert_eq!(chunks, ["hello ", " ", "big\n", "world"]);
        let TurnOutcome::Finished { text, messages, finish_reason, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(text, "hello  big\nworld");
        assert_eq!(messages, [Message::assistant("hello  big\nworld")]);
        assert_eq!(finish_reason, "stop");
    }

    #[tokio::test]
    async fn an_echo_that_nobody_chose_names_itself_once_in_a_conversation() {
        let answer = async |history: &[&str]| {
            let (sink, reader) = EventSink::channel();
            drop(reader);
            let history = history.iter().map(|text| std::sync::Arc::new(Message::user(*text))).collect();
            let request = TurnRequest { history, ..request(&["hello"]) };
            let outcome = Echo::new(false).introducing(true).run(request, sink, CancellationToken::new()).await;
            let TurnOutcome::Finished { text, .. } = outcome else { panic!("{outcome:?}") };
            text
        };
        assert_eq!(answer(&[]).await, format!("hello\n\n{INTRODUCTION}"));
        assert_eq!(answer(&["hello", "hello"]).await, "hello");
    }

    #[tokio::test]
    async fn test_words_are_ordinary_words_unless_switched_on() {
        for word in TEST_WORDS {
            let (outcome, _) = answer(false, &[word]).await;
            assert!(matches!(&outcome, TurnOutcome::Finished { text, .. } if text == word), "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn a_test_word_is_understood_behind_the_name_of_who_speaks() {
        let (outcome, _) = answer(true, &["[Ada [x] B.] /long 12"]).await;
        assert!(matches!(&outcome, TurnOutcome::Finished { text, .. } if text.len() == 12), "{outcome:?}");
        let (outcome, _) = answer(true, &["[Ada] say /long 12"]).await;
        assert!(matches!(&outcome, TurnOutcome::Finished { text, .. } if text == "[Ada] say /long 12"), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_failure_keeps_what_was_said() {
        let (outcome, chunks) = answer(true, &["/fail half of it"]).await;
        assert_eq!(chunks.concat(), "half of it");
        assert!(matches!(&outcome, TurnOutcome::Failed(failure) if failure.partial == "half of it"), "{outcome:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_words_wait_and_long_answers_are_as_long_as_asked() {
        let before = tokio::time::Instant::now();
        let (_, chunks) = answer(true, &["/slow 250 one two"]).await;
        assert_eq!(chunks.concat(), "one two");
        assert_eq!(before.elapsed(), Duration::from_millis(500));
        let (outcome, _) = answer(true, &["/long 12345"]).await;
        assert!(matches!(&outcome, TurnOutcome::Finished { text, .. } if text.len() == 12345));
    }

    #[tokio::test]
    async fn a_hanging_turn_stops_at_once_and_tells_what_was_said() {
        let (sink, mut reader) = EventSink::channel();
        let cancel = CancellationToken::new();
        let echo = Echo::new(true);
        let stop_after_the_first_word = async {
            reader.recv().await;
            cancel.cancel();
        };
        let turn = echo.run(request(&["/hang here"]), sink, cancel.clone());
        let (outcome, ()) = tokio::join!(turn, stop_after_the_first_word);
        assert!(matches!(&outcome, TurnOutcome::Interrupted { text } if text == "here"), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_turn_that_follows_says_what_it_is_steered_with() {
        let (sink, _reader, mut line) = EventSink::with_line();
        line.set_waiting(true);
        let steer =
            async { line.steering_request().await.send(vec![Message::user("left"), Message::user("right")]).unwrap() };
        let echo = Echo::new(true);
        let (outcome, ()) = tokio::join!(echo.run(request(&["/follow me"]), sink, CancellationToken::new()), steer);
        assert!(matches!(&outcome, TurnOutcome::Finished { text, .. } if text == "me\nleft\nright"), "{outcome:?}");
    }

    #[tokio::test]
    async fn nobody_reading_is_no_reason_to_stop() {
        let (sink, reader) = EventSink::channel();
        drop(reader);
        let outcome = Echo::new(true).run(request(&["/long 5000"]), sink, CancellationToken::new()).await;
        assert!(matches!(outcome, TurnOutcome::Finished { .. }));
    }
}
