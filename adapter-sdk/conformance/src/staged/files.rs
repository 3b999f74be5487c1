//! Cases for files that an event names and that the host fetches later.

use hermes_protocol::{Attachment, AttachmentKind, FetchCall, method};
use serde_json::json;

use super::link::PATIENCE;
use super::{CaseResult, NotPassed, StagedRun};
use crate::Subject;
use crate::stage::Stage;

/// The content of the file.
const BYTES: &str = "the bytes of a file";

impl<S: Subject, T: Stage> StagedRun<'_, S, T> {
    pub(super) async fn file_comes(&mut self) -> CaseResult {
        self.fetches()?;
        let file = json!({ "name": "certify.txt", "text": BYTES });
        let said = json!({ "chat": "dm", "from": 1, "text": "with a file", "file": file });
        let event = self.heard(said).await?;
        let [file] = event.attachments.as_slice() else {
            return Err(format!("an event with {} files", event.attachments.len()).into());
        };
        let fetched = self.fetch(file.clone()).await?;
        let is_whole = fetched.media.is_some() && fetched.size == BYTES.len() as u64;
        if is_whole { Ok(()) } else { Err(json!(fetched).to_string().into()) }
    }

    pub(super) async fn file_is_gone(&mut self) -> CaseResult {
        self.fetches()?;
        let gone = Attachment::away("nobody knows this", AttachmentKind::File, "text/plain", "certify.txt", 3);
        let answer = self.fetch(gone).await?;
        let has_note = answer.media.is_none() && answer.note.as_ref().is_some_and(|note| !note.is_empty());
        if has_note { Ok(()) } else { Err(json!(answer).to_string().into()) }
    }

    fn fetches(&self) -> CaseResult {
        let fetches = self.manifest.capabilities.fetch;
        if fetches { Ok(()) } else { Err(NotPassed::Skipped("the adapter does not fetch files on demand".to_owned())) }
    }

    async fn fetch(&mut self, file: Attachment) -> Result<Attachment, NotPassed> {
        let within_ms = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
        let answer = self.link.call(method::FETCH, &json!(FetchCall::new(file, within_ms)), PATIENCE).await;
        let read = (answer.status == Some(0)).then(|| serde_json::from_slice(&answer.payload).ok()).flatten();
        read.ok_or_else(|| format!("it answers {}", String::from_utf8_lossy(&answer.payload)).into())
    }
}
