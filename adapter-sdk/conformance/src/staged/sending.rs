//! The cases for sending: the length limit, and the reactions of the platform.

use hermes_protocol::{Chat, OutMedia, Outgoing, SendOutcome, TextUnit, method};
use serde_json::json;

use super::link::{CANCEL_AFTER, PATIENCE};
use super::{CaseResult, NotPassed, StagedRun};
use crate::stage::Stage;
use crate::{Subject, words};

/// The text of a message whose file is refused, and the name of the file.
const TEXT_OF_FILE: &str = "its text";
const NAME_OF_FILE: &str = "certify.txt";

/// The wait that the platform requests, in seconds.
const RETRY_AFTER_S: u64 = 7;

impl<S: Subject, T: Stage> StagedRun<'_, S, T> {
    pub(super) async fn at_the_limit(&mut self) -> CaseResult {
        let text = self.text_of(0)?;
        let before = self.journal()?.len();
        match self.send(&text).await? {
            SendOutcome::Delivered { .. } => {}
            other => return Err(words::outcome(&other).into()),
        }
        let after = self.journal()?;
        match &after[before.min(after.len())..] {
            [one] if *one == text => Ok(()),
            several => Err(format!(
                "{} messages of {:?} characters",
                several.len(),
                several.iter().map(|t| t.chars().count()).collect::<Vec<_>>()
            )
            .into()),
        }
    }

    pub(super) async fn beyond_the_limit(&mut self) -> CaseResult {
        let text = self.text_of(1)?;
        let before = self.journal()?.len();
        let outcome = self.send(&text).await?;
        match self.journal()?.len().saturating_sub(before) {
            0 if !matches!(outcome, SendOutcome::Delivered { .. }) => Ok(()),
            1 => Ok(()),
            count => Err(format!("{count} messages, and {}", words::outcome(&outcome)).into()),
        }
    }

    pub(super) async fn flood_wait(&mut self) -> CaseResult {
        self.link.stage.tell(&json!({ "fault": { "kind": "429", "retry_after_s": RETRY_AFTER_S } }))?;
        match self.send("too early").await? {
            SendOutcome::NotSent { retry_after_ms: Some(wait_ms), .. } if wait_ms >= RETRY_AFTER_S * 1_000 => Ok(()),
            other => Err(words::outcome(&other).into()),
        }
    }

    pub(super) async fn broken_server(&mut self) -> CaseResult {
        self.link.stage.tell(&json!({ "fault": { "kind": "5xx" } }))?;
        match self.send("to a broken server").await? {
            SendOutcome::NotSent { .. } | SendOutcome::Unknown { .. } => Ok(()),
            other => Err(words::outcome(&other).into()),
        }
    }

    pub(super) async fn file_refused(&mut self) -> CaseResult {
        if !self.manifest.capabilities.media.outbound {
            return Err(NotPassed::Skipped("the adapter does not send files".to_owned()));
        }
        let Some(dir) = self.link.media_dir() else {
            return Err(NotPassed::Skipped("the test has no folder for files".to_owned()));
        };
        let path = dir.join("certify-refused");
        std::fs::write(&path, TEXT_OF_FILE).map_err(|error| format!("{}: {error}", path.display()))?;
        let (shown, size) = (path.to_string_lossy(), TEXT_OF_FILE.len() as u64);
        let mut outgoing = self.outgoing(TEXT_OF_FILE).await?;
        outgoing.media.push(OutMedia::new("certify-refused", shown, "text/plain", NAME_OF_FILE, size));
        let before = self.journal()?.len();
        self.link.stage.tell(&json!({ "fault": { "kind": "file" } }))?;
        let outcome = self.send_this(&outgoing).await?;
        self.link.stage.tell(&json!({ "fault": { "kind": "none" } }))?;
        // A file that cannot be removed is no failure of the adapter.
        let _ = std::fs::remove_file(&path);
        if !matches!(outcome, SendOutcome::Delivered { .. }) {
            return Err(words::outcome(&outcome).into());
        }
        let after = self.journal()?;
        match &after[before.min(after.len())..] {
            [one] if one.starts_with(TEXT_OF_FILE) && one.contains(NAME_OF_FILE) => Ok(()),
            several => Err(format!("the messages {several:?}").into()),
        }
    }

    pub(super) async fn cancelled(&mut self) -> CaseResult {
        let outgoing = self.outgoing("never answered").await?;
        self.link.stage.tell(&json!({ "fault": { "kind": "silence" } }))?;
        let answer = self.link.call(method::SEND, &json!(outgoing), CANCEL_AFTER).await;
        self.link.stage.tell(&json!({ "fault": { "kind": "none" } }))?;
        if answer.status.is_some() { Ok(()) } else { Err("no answer".to_owned().into()) }
    }

    /// Returns a text that is `more` units longer than the declared limit, made of the characters that count most.
    fn text_of(&self, more: usize) -> Result<String, NotPassed> {
        let limit = &self.manifest.capabilities.text;
        let size = usize::try_from(limit.limit).unwrap_or(0).saturating_add(more);
        if limit.limit == 0 {
            return Err(NotPassed::Skipped("the manifest declares no limit".to_owned()));
        }
        let wide = match limit.unit {
            TextUnit::Utf16 => 2,
            TextUnit::Bytes => 4,
            _ => 1,
        };
        let mut text = "\u{1F980}".repeat(size / wide);
        text.push_str(&"x".repeat(size % wide));
        Ok(text)
    }

    async fn send(&mut self, text: &str) -> Result<SendOutcome, NotPassed> {
        let outgoing = self.outgoing(text).await?;
        self.send_this(&outgoing).await
    }

    async fn send_this(&mut self, outgoing: &Outgoing) -> Result<SendOutcome, NotPassed> {
        let answer = self.link.call(method::SEND, &json!(outgoing), PATIENCE).await;
        match (answer.status, serde_json::from_slice(&answer.payload)) {
            (Some(0), Ok(outcome)) => Ok(outcome),
            _ => Err(words::answer(&answer).into()),
        }
    }

    async fn outgoing(&mut self, text: &str) -> Result<Outgoing, NotPassed> {
        let chat: Chat = self.heard(json!({ "chat": "dm", "from": 1, "text": "say something" })).await?.chat;
        let mut outgoing = Outgoing::text(chat, text);
        self.sent += 1;
        outgoing.key = format!("certify-{}", self.sent);
        outgoing.delivery = self.sent;
        Ok(outgoing)
    }

    /// Returns the messages of the account on the platform.
    fn journal(&mut self) -> Result<Vec<String>, NotPassed> {
        let answer = self.link.stage.tell(&json!({ "journal": {} }))?;
        let written =
            answer["journal"].as_array().ok_or_else(|| NotPassed::Failed(format!("a journal like {answer}")))?;
        Ok(written.iter().filter_map(|one| one["text"].as_str()).map(str::to_owned).collect())
    }
}
