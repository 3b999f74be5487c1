//! Search in the transcripts.

use super::{Result, SearchHit, Store};

impl Store {
    /// Finds messages with all words of `query`, best first. Any text is a valid query.
    pub async fn search(&self, query: &str, limit: u32) -> Result<Vec<SearchHit>> {
        self.search_owned(query, None, limit).await
    }

    /// [`Store::search`] in the sessions that `owner` began.
    pub async fn search_owned(&self, query: &str, owner: Option<&str>, limit: u32) -> Result<Vec<SearchHit>> {
        todo!()
    }
}
