//! Uploaded files that wait for their message.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hermes_adapter_sdk::prelude::*;

/// The maximum number of uploaded files that are not sent yet.
const UPLOADS_MAX: usize = 64;

/// An uploaded file that waits for its message.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) conversation: String,
    pub(crate) attachment: Attachment,
    pub(crate) path: String,
}

/// The uploads of all conversations, by the id of their file.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<BTreeMap<String, Upload>>);

impl Uploads {
    /// Adds an upload. If there are too many, another one makes room.
    pub(crate) fn add(&self, upload: Upload) {
        let Some(id) = upload.attachment.media.clone() else { return };
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while uploads.len() >= UPLOADS_MAX {
            uploads.pop_first();
        }
        uploads.insert(id, upload);
    }

    /// Returns the uploads of a conversation and keeps them, because the message may be sent again. `None` if the
    /// file of an upload has expired.
    pub(crate) fn find(&self, conversation: &str, ids: &[String]) -> Option<Vec<Upload>> {
        let uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = |upload: &Upload| upload.conversation == conversation && Path::new(&upload.path).exists();
        ids.iter().map(|id| uploads.get(id).filter(|upload| is_one(upload)).cloned()).collect()
    }
}
