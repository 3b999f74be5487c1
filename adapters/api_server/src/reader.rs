//! A reader of an open request: the events of the request, at the reader's own pace.

use std::sync::Arc;

use tokio::sync::watch;

use crate::end::End;
use crate::open_request::{OpenRequest, Piece, Position};
use crate::server::Server;

/// A reader that waits for the answer. When the last reader ends, so does the request.
pub(crate) struct Reader {
    server: Arc<Server>,
    request: Arc<OpenRequest>,
    changed: watch::Receiver<()>,
    position: Position,
}

impl Reader {
    /// Creates a reader that follows `turn` from its beginning.
    pub(crate) fn new(server: Arc<Server>, request: Arc<OpenRequest>) -> Self {
        let changed = request.add_reader();
        Self { server, request, changed, position: Position::default() }
    }

    /// Waits until the host has the event, or the request ends without it.
    pub(crate) async fn wait_confirmed(&mut self) -> Option<End> {
        loop {
            self.changed.borrow_and_update();
            if self.request.is_confirmed() {
                return self.request.end_so_far();
            }
            // The turn lives as long as this reader, so the channel stays open.
            if self.changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Returns the next piece. The end is returned repeatedly.
    pub(crate) async fn next(&mut self) -> Piece {
        loop {
            self.changed.borrow_and_update();
            if let Some(piece) = self.request.piece(&mut self.position) {
                return piece;
            }
            if self.changed.changed().await.is_err() {
                return Piece::End(End::failed(500, "internal", "the request was lost"));
            }
        }
    }

    /// Returns the end and skips all other pieces.
    pub(crate) async fn ended(&mut self) -> End {
        loop {
            if let Piece::End(end) = self.next().await {
                return end;
            }
        }
    }

    /// Records that the answer is written to its connection.
    pub(crate) fn mark_delivered(&self) {
        self.request.mark_delivered();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(delivered) = self.request.remove_reader() {
            self.server.close(&self.request, delivered);
        }
    }
}
