//! The staged cases: the adapter is connected to a simulated platform.

mod files;
mod link;
mod named;
mod sending;

use hermes_protocol::{Chat, ConnectError, Event, EventKind, HandoffThreadCall, Manifest, host_method, method};
use serde_json::{Value, json};

use self::link::{AGAIN_AFTER, Link, PATIENCE};
pub use self::link::{LOG, RUN_ENDED};
use crate::stage::{Stage, StageError};
use crate::watch::CONNECTS;
use crate::{Case, Outcome, Subject, Verdict, Watch, words};

/// All staged cases, in the order in which they run.
pub const STAGED_CASES: &[Case] = &[
    Case { id: "connects", sentence: "`connect` is answered OK and the connection stays open" },
    Case { id: "inbound-is-one-event", sentence: "a message becomes one event with its sender, chat and text" },
    Case { id: "repeated-inbound-is-one-event-id", sentence: "a change that is delivered twice has one event id" },
    Case { id: "own-echo-is-no-event", sentence: "a message of the own account causes no event" },
    Case { id: "bots-are-marked", sentence: "the event of another bot is marked as one of a bot" },
    Case { id: "file-comes-when-asked-for", sentence: "a file that an event names is fetched completely on request" },
    Case {
        id: "file-that-is-gone-is-told",
        sentence: "a file that cannot be fetched is answered with a note, not with an error",
    },
    Case {
        id: "refused-file-keeps-its-text",
        sentence: "a message with a rejected file arrives as text that names the file",
    },
    Case {
        id: "handoff-thread-is-its-messages-chat",
        sentence: "the descriptor of a handoff thread equals that of the next message from it",
    },
    Case { id: "handoff-thread-is-shared", sentence: "two people in a handoff thread write in the same chat" },
    Case { id: "handoff-key-opens-one-thread", sentence: "the same key does not open a second thread" },
    Case {
        id: "named-chat-is-its-messages-chat",
        sentence: "the chat that a target resolves to equals the chat of its messages",
    },
    Case { id: "text-at-the-limit-arrives-whole", sentence: "a text of the declared maximum length arrives complete" },
    Case {
        id: "text-beyond-the-limit-is-not-split",
        sentence: "`send` turns a text that is too long into one message or none",
    },
    Case { id: "flood-wait-is-told", sentence: "a rate-limited message is `not_sent` with the time to wait" },
    Case { id: "broken-server-is-not-delivered", sentence: "a message to a failing server is `unknown` or `not_sent`" },
    Case { id: "malformed-news-is-survived", sentence: "the next message arrives after malformed data" },
    Case { id: "cut-link-comes-back", sentence: "the next message arrives after a lost connection" },
    Case { id: "silence-is-noticed", sentence: "a silent platform is detected within the declared time" },
    Case { id: "call-without-answer-is-cancelled", sentence: "an unanswered `send` ends when it is cancelled" },
    Case { id: "expired-credential-is-fatal", sentence: "a rejected credential is fatal and names the next step" },
    Case { id: "connects-again", sentence: "the same instance connects again after the fault is fixed" },
    Case { id: "nothing-tells-a-secret", sentence: "no log record, answer or call to the host contains a secret" },
    Case { id: "shutdown-while-connected", sentence: "shutdown is answered OK within its deadline while connected" },
];

/// The case that inspects the recorded calls and sends nothing to the instance.
const NO_SECRET: &str = "nothing-tells-a-secret";

/// The reason for skipping the staged cases.
pub const NO_STAGE: &str = "no stage";

/// Returns the staged cases as skipped, for an adapter without a stage.
pub fn without_stage() -> Vec<Outcome> {
    let skipped = |case: &Case| Outcome::new(*case, Verdict::Skipped(NO_STAGE.to_owned()));
    STAGED_CASES.iter().map(skipped).collect()
}

/// Runs all staged cases on a fresh `subject`, in order. `secrets` are values that must not appear in any output.
/// The last case ends the instance.
pub async fn run_staged<S: Subject, T: Stage>(subject: &mut S, stage: &mut T, secrets: &[String]) -> Vec<Outcome> {
    run_staged_watched(subject, stage, secrets, &mut Watch::default()).await
}

/// Runs the staged cases that `watch` selects, and reports each outcome to `watch`.
pub async fn run_staged_watched<S: Subject, T: Stage>(
    subject: &mut S,
    stage: &mut T,
    secrets: &[String],
    watch: &mut Watch<'_>,
) -> Vec<Outcome> {
    let asked: Vec<Case> = STAGED_CASES.iter().filter(|case| watch.asks(case.id)).copied().collect();
    let manifest: Option<Manifest> = serde_json::from_slice(&subject.manifest()).ok();
    let Some(manifest) = manifest else {
        let unread = |case| Outcome::new(case, Verdict::Failed("the manifest cannot be parsed".into()));
        return asked.into_iter().map(unread).inspect(|outcome| watch.tell(outcome)).collect();
    };
    let mut run = StagedRun { link: Link::new(subject, stage), manifest, thread: None, sent: 0 };
    let mut outcomes = Vec::with_capacity(asked.len());
    // Without a link the other cases are skipped.
    let mut no_link = false;
    let connects = STAGED_CASES.iter().filter(|case| case.id == CONNECTS && !asked.is_empty());
    for case in connects.chain(asked.iter().filter(|case| case.id != CONNECTS)) {
        let outcome = match no_link {
            true => Outcome::new(*case, Verdict::Skipped("the instance does not connect".into())),
            false => run.outcome(*case, secrets).await,
        };
        no_link |= case.id == CONNECTS && outcome.failed();
        watch.tell(&outcome);
        outcomes.push(outcome);
    }
    outcomes
}

/// The reason why a case did not pass.
pub(crate) enum NotPassed {
    /// The requirement does not hold; contains the observed behaviour.
    Failed(String),
    /// The case does not apply; contains the reason.
    Skipped(String),
}

impl From<String> for NotPassed {
    fn from(seen: String) -> Self {
        Self::Failed(seen)
    }
}

impl From<StageError> for NotPassed {
    fn from(error: StageError) -> Self {
        match error {
            StageError::Unsupported(why) => Self::Skipped(why),
            StageError::Broken(_) => Self::Failed(error.to_string()),
        }
    }
}

type CaseResult = Result<(), NotPassed>;

struct StagedRun<'p, S, T> {
    link: Link<'p, S, T>,
    manifest: Manifest,
    /// The opened handoff thread, and the chat of its first message.
    thread: Option<(Chat, Chat)>,
    /// The number of sent messages.
    sent: i64,
}

impl<S: Subject, T: Stage> StagedRun<'_, S, T> {
    /// Runs a case. After a panic only the recorded calls are inspected.
    async fn outcome(&mut self, case: Case, secrets: &[String]) -> Outcome {
        if let Some(why) = self.link.panicked.as_ref().filter(|_| case.id != NO_SECRET) {
            let why = masked(&format!("not run: the instance is poisoned ({why})"), secrets);
            return Outcome::new(case, Verdict::Skipped(why));
        }
        let (before, was_panicked) = (self.link.records.len(), self.link.panicked.is_some());
        let held = self.case(case.id, secrets).await;
        // A panic fails the case, even if its check succeeded.
        let held = match self.link.panicked.clone().filter(|_| !was_panicked) {
            Some(why) => Err(NotPassed::Failed(why)),
            None => held,
        };
        let said = self.link.stage.said();
        let verdict = match held {
            Ok(()) => Verdict::Passed,
            Err(NotPassed::Skipped(why)) => Verdict::Skipped(why),
            Err(NotPassed::Failed(seen)) => {
                let logged = self.link.logged_since(before);
                let aside = said.into_iter().map(|line| format!("stage: {line}")).chain(logged);
                let aside = aside.map(|line| masked(&line, secrets)).collect();
                return Outcome { case, verdict: Verdict::Failed(masked(&seen, secrets)), aside };
            }
        };
        Outcome::new(case, verdict)
    }

    async fn case(&mut self, id: &str, secrets: &[String]) -> CaseResult {
        match id {
            CONNECTS => Ok(self.link.connect().await.map_err(|error| words::link(&error))?),
            "inbound-is-one-event" => self.inbound_is_one_event().await,
            "repeated-inbound-is-one-event-id" => self.repeated_is_one().await,
            "own-echo-is-no-event" => self.own_echo().await,
            "bots-are-marked" => self.bots_are_marked().await,
            "file-comes-when-asked-for" => self.file_comes().await,
            "file-that-is-gone-is-told" => self.file_is_gone().await,
            "refused-file-keeps-its-text" => self.file_refused().await,
            "handoff-thread-is-its-messages-chat" => self.thread_is_its_chat().await,
            "handoff-thread-is-shared" => self.thread_is_shared().await,
            "handoff-key-opens-one-thread" => self.key_opens_one().await,
            "named-chat-is-its-messages-chat" => self.named_chat_is_its_messages_chat().await,
            "text-at-the-limit-arrives-whole" => self.at_the_limit().await,
            "text-beyond-the-limit-is-not-split" => self.beyond_the_limit().await,
            "flood-wait-is-told" => self.flood_wait().await,
            "broken-server-is-not-delivered" => self.broken_server().await,
            "malformed-news-is-survived" => self.comes_after("malformed").await,
            "cut-link-comes-back" => self.comes_after("cut").await,
            "silence-is-noticed" => self.silence().await,
            "call-without-answer-is-cancelled" => self.cancelled().await,
            "expired-credential-is-fatal" => self.expired().await,
            "connects-again" => self.connects_again().await,
            NO_SECRET => self.no_secret(secrets),
            "shutdown-while-connected" => Ok(self.link.shut_down().await?),
            other => Err(NotPassed::Skipped(format!("unknown case `{other}`"))),
        }
    }

    /// Simulates an incoming message and returns its event.
    async fn heard(&mut self, said: Value) -> Result<Event, NotPassed> {
        let text = said["text"].as_str().unwrap_or_default().to_owned();
        self.link.stage.tell(&json!({ "inbound": said }))?;
        Ok(self.link.event_of(&text).await?.0)
    }

    async fn inbound_is_one_event(&mut self) -> CaseResult {
        for (chat, from, text) in
            [("dm", 1, "the first words"), ("dm", 1, "the second words"), ("group", 2, "the third words")]
        {
            self.link.stage.tell(&json!({ "inbound": { "chat": chat, "from": from, "text": text } }))?;
            let (event, before) = self.link.event_of(text).await?;
            if let Some(other) = before.first() {
                return Err(format!("an additional event: {}", shown(other)).into());
            }
            let says_all = event.kind == EventKind::Message && !event.sender.id.is_empty() && !event.sender.is_bot;
            if !says_all {
                return Err(shown(&event).into());
            }
        }
        Ok(())
    }

    async fn repeated_is_one(&mut self) -> CaseResult {
        let delivered =
            self.link.stage.tell(&json!({ "inbound": { "chat": "dm", "from": 1, "text": "said once" } }))?;
        let (first, _) = self.link.event_of("said once").await?;
        let mut before = self.link.events_for(AGAIN_AFTER).await;
        self.link.stage.tell(&json!({ "inbound": { "again": delivered["id"] } }))?;
        self.link.stage.tell(&json!({ "inbound": { "chat": "dm", "from": 1, "text": "said after it" } }))?;
        before.extend(self.link.event_of("said after it").await?.1);
        match before.iter().find(|event| event.event_id != first.event_id) {
            Some(other) => Err(format!("{} after {}", other.event_id, first.event_id).into()),
            None => Ok(()),
        }
    }

    async fn own_echo(&mut self) -> CaseResult {
        self.link.stage.tell(&json!({ "inbound": { "chat": "group", "own": true, "text": "said by itself" } }))?;
        self.link.stage.tell(&json!({ "inbound": { "chat": "group", "from": 1, "text": "said by somebody" } }))?;
        let (_, before) = self.link.event_of("said by somebody").await?;
        before.first().map_or(Ok(()), |event| Err(shown(event).into()))
    }

    async fn bots_are_marked(&mut self) -> CaseResult {
        self.link
            .stage
            .tell(&json!({ "inbound": { "chat": "group", "from": 2, "bot": true, "text": "said by a bot" } }))?;
        self.link.stage.tell(&json!({ "inbound": { "chat": "group", "from": 1, "text": "said by no bot" } }))?;
        let (_, before) = self.link.event_of("said by no bot").await?;
        before.iter().find(|event| !event.sender.is_bot).map_or(Ok(()), |event| Err(shown(event).into()))
    }

    async fn thread_is_its_chat(&mut self) -> CaseResult {
        let opened = self.open("certify").await?;
        let event = self.heard(json!({ "chat": opened, "from": 1, "text": "the first in the thread" })).await?;
        let same = event.chat == opened;
        self.thread = Some((opened.clone(), event.chat.clone()));
        if same { Ok(()) } else { Err(format!("opened: {}; received: {}", json!(opened), json!(event.chat)).into()) }
    }

    async fn thread_is_shared(&mut self) -> CaseResult {
        let Some((opened, first)) = self.thread.clone() else {
            return Err(NotPassed::Skipped("no thread is open".into()));
        };
        let event = self.heard(json!({ "chat": opened, "from": 2, "text": "the second in the thread" })).await?;
        if event.chat == first { Ok(()) } else { Err(format!("{} and {}", json!(first), json!(event.chat)).into()) }
    }

    async fn key_opens_one(&mut self) -> CaseResult {
        let Some((opened, _)) = self.thread.clone() else { return Err(NotPassed::Skipped("no thread is open".into())) };
        let again = self.open("certify").await?;
        if again == opened { Ok(()) } else { Err(format!("{} and {}", json!(opened), json!(again)).into()) }
    }

    /// Opens a handoff thread in the group.
    async fn open(&mut self, key: &str) -> Result<Chat, NotPassed> {
        if !self.manifest.capabilities.create_handoff_thread {
            return Err(NotPassed::Skipped("the adapter does not open threads".to_owned()));
        }
        let home = self.heard(json!({ "chat": "group", "from": 1, "text": format!("the home of {key}") })).await?.chat;
        self.open_in(home, key).await
    }

    async fn open_in(&mut self, home: Chat, key: &str) -> Result<Chat, NotPassed> {
        let call = json!(HandoffThreadCall::new(home, "certify", key));
        let answer = self.link.call(method::CREATE_HANDOFF_THREAD, &call, PATIENCE).await;
        let opened: Option<Chat> =
            (answer.status == Some(0)).then(|| serde_json::from_slice(&answer.payload).ok()).flatten();
        opened.ok_or_else(|| format!("it answers {}", String::from_utf8_lossy(&answer.payload)).into())
    }

    async fn comes_after(&mut self, fault: &str) -> CaseResult {
        self.link.stage.tell(&json!({ "fault": { "kind": fault } }))?;
        let text = format!("said after {fault}");
        self.heard(json!({ "chat": "dm", "from": 1, "text": text })).await?;
        Ok(())
    }

    async fn silence(&mut self) -> CaseResult {
        let promised = self.manifest.capabilities.liveness.interval_s;
        if promised == 0 {
            return Err(NotPassed::Skipped("the manifest declares no `interval_s`".to_owned()));
        }
        self.link.stage.tell(&json!({ "fault": { "kind": "silence" } }))?;
        let noticed = self.link.lost_within(std::time::Duration::from_secs(promised.into())).await;
        self.link.stage.tell(&json!({ "fault": { "kind": "none" } }))?;
        if !noticed {
            return Err(format!("the silence was not detected within {promised} s").into());
        }
        self.heard(json!({ "chat": "dm", "from": 1, "text": "said after the silence" })).await?;
        Ok(())
    }

    async fn expired(&mut self) -> CaseResult {
        self.link.stage.tell(&json!({ "fault": { "kind": "expired" } }))?;
        match self.link.fatal().await? {
            ConnectError::Fatal { reason, mend } if !reason.is_empty() && !mend.is_empty() => Ok(()),
            other => Err(words::link(&other).into()),
        }
    }

    async fn connects_again(&mut self) -> CaseResult {
        self.link.stage.tell(&json!({ "fault": { "kind": "none" } }))?;
        self.link.again().await?;
        self.heard(json!({ "chat": "dm", "from": 1, "text": "said at the end" })).await?;
        Ok(())
    }

    fn no_secret(&self, secrets: &[String]) -> CaseResult {
        let secrets: Vec<&String> = secrets.iter().filter(|secret| !secret.is_empty()).collect();
        if secrets.is_empty() {
            return Err(NotPassed::Skipped("the sample configuration contains no secret".to_owned()));
        }
        let leak = self.link.records.iter().find(|(what, text)| {
            // The host stores only a hash of the locked credential.
            what != host_method::LOCK_CREDENTIAL && secrets.iter().any(|secret| text.contains(secret.as_str()))
        });
        match leak {
            Some((what, _)) => Err(format!("`{what}` contains a secret").into()),
            None => Ok(()),
        }
    }
}

/// Returns the text with secrets replaced by `***`.
fn masked(text: &str, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

fn shown(event: &Event) -> String {
    json!({ "type": event.kind, "event_id": event.event_id, "chat": event.chat, "sender": event.sender, "text": event.text }).to_string()
}

#[cfg(test)]
mod tests;
