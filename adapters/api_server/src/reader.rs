//! A reader of an open request: the events of the request, at the reader's own pace.

use std::sync::Arc;

use tokio::sync::watch;

use crate::end::End;
use crate::open_request::{Piece, Position, Turn};
use crate::server::Server;

/// A reader that waits for the answer. When the last reader ends, so does the request.
pub struct Reader {
    server: Arc<Server>,
    turn: Arc<Turn>,
    changed: watch::Receiver<()>,
    position: Position,
}

impl Reader {
    /// Creates a reader that follows `turn` from its beginning.
    pub fn new(server: Arc<Server>, turn: Arc<Turn>) -> Self {
        let changed = turn.add_reader();
        Self { server, turn, changed, position: Position::default() }
    }

    /// Waits until the host has the event, or the request ends without it.
    pub async fn opened(&mut self) -> Option<End> {
        loop {
            self.changed.borrow_and_update();
            if self.turn.is_confirmed() {
                return self.turn.end_so_far();
            }
            // The turn lives as long as this reader, so the channel stays open.
            if self.changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Returns the next piece. The end is returned repeatedly.
    pub async fn next(&mut self) -> Piece {
        loop {
            self.changed.borrow_and_update();
            if let Some(piece) = self.turn.piece(&mut self.position) {
                return piece;
            }
            if self.changed.changed().await.is_err() {
                return Piece::End(End::failed(500, "internal", "the request was lost"));
            }
        }
    }

    /// Returns the end and skips all other pieces.
    pub async fn ended(&mut self) -> End {
        loop {
            if let Piece::End(end) = self.next().await {
                return end;
            }
        }
    }

    /// Records that the answer is written to its connection.
    pub fn took_it(&self) {
        self.turn.mark_taken();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(taken) = self.turn.remove_reader() {
            self.server.leave(&self.turn, taken);
        }
    }
}
