//! The running and finished acknowledgements of interactions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The number of remembered acknowledgements; an answer waits for its own.
const ACKNOWLEDGEMENTS_MAX: usize = 256;

/// The result of an acknowledgement; `None` until it is known.
type AckResult = watch::Receiver<Option<bool>>;

/// The acknowledgements of this run, by interaction, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements(Mutex<VecDeque<(String, AckResult)>>);

impl Acknowledgements {
    fn list(&self) -> MutexGuard<'_, VecDeque<(String, AckResult)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an acknowledgement that starts; the returned sender takes its result.
    pub(crate) fn begin(&self, interaction: &str) -> watch::Sender<Option<bool>> {
        let (sender, result) = watch::channel(None);
        let mut list = self.list();
        list.retain(|(id, _)| id != interaction);
        list.push_back((interaction.to_owned(), result));
        while list.len() > ACKNOWLEDGEMENTS_MAX {
            list.pop_front();
        }
        sender
    }

    /// Waits for the end of an acknowledgement; returns `false` if the interaction accepts
    /// no answer. An acknowledgement of an earlier run may have succeeded.
    pub(crate) async fn wait(&self, interaction: &str) -> bool {
        let result = self.list().iter().find(|(id, _)| id == interaction).map(|(_, result)| result.clone());
        let Some(mut result) = result else { return true };
        // An error means that the task was cancelled; only the platform knows the result.
        result.wait_for(Option::is_some).await.map_or(true, |result| *result != Some(false))
    }
}
