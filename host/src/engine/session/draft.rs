//! The growing message that shows an unfinished answer in a chat.
//!
//! While a turn runs, its text becomes a delivery that is not final yet: committed with its first piece, and updated by
//! edits from then on (see [`crate::engine::outbox::growing`]). A tool call ends the message, and the next text begins another
//! one. The transaction that ends the turn also gives the last message its final text: the answer, the reason for its
//! absence, or the text so far with "(interrupted)". A quick answer never grows and is sent as a whole; so is the text
//! of a turn that was interrupted before its message began to grow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::delivery::{PreviewPace, PreviewRule, silence};
use hermes_core::ids::TurnId;
use hermes_protocol::{Purpose, StreamKind};
use tokio::time::Instant;

use super::hint_line::HintLine;
use super::hints::Unsent;
use crate::engine::context::Heard;
use crate::engine::crash_points;
use crate::engine::messages::{DeliveryNews, HostEvent};
use crate::engine::outbox::{Growing, Target, growing, owed};
use crate::engine::runtime::Host;
use crate::engine::session::display::Dress;
use hermes_config::StreamMode;
use hermes_loader::AdapterHandle;
use hermes_store::{NewDelivery, NewPart, OwedDelivery, TurnEnd, interrupted};

/// The visible part of an unfinished answer.
pub struct Draft {
    adapter: AdapterHandle,
    rule: PreviewRule,
    began: Instant,
    /// The pace at which the next message begins to be shown.
    pace: PreviewPace,
    /// The offset at which the message begins in the turn's text, in bytes.
    from: usize,
    /// Characters of the message so far.
    chars: usize,
    /// The message, once it is committed.
    message: Option<Arc<Growing>>,
    /// True if the lane has to be notified of new text.
    tell: bool,
    /// Messages of this turn that are final.
    before: u32,
    /// The offsets at which messages end that are not final yet, in bytes.
    ends: VecDeque<usize>,
    unsent: Option<Unsent>,
}

impl Draft {
    /// Starts to show the answer to `heard`, if its adapter supports that and the operator enabled it.
    pub fn start(host: &Host, heard: &Heard) -> Option<Self> {
        let live = host.live();
        let adapter = heard.place.adapter.clone()?;
        let can = adapter.capabilities();
        let wanted = live.session_of(&heard.place.instance).stream == StreamMode::Auto;
        let by_edits = can.stream == StreamKind::Edit && can.edit;
        let unsent = can.drafts && can.stream != StreamKind::Native;
        if !wanted || !can.supports_async_delivery || !(by_edits || unsent) {
            return None;
        }
        let rule = live.pace();
        let unsent = unsent.then(|| Unsent::start(HintLine::to(host, adapter.clone()), heard.place.chat.clone(), rule));
        Some(Self {
            adapter,
            rule,
            began: Instant::now(),
            pace: PreviewPace::new(rule, 0),
            from: 0,
            chars: 0,
            message: None,
            tell: false,
            before: 0,
            ends: VecDeque::new(),
            unsent,
        })
    }

    /// Continues a message that an earlier run of the host began.
    pub fn adopt(&mut self, draft: &OwedDelivery) {
        self.message = Some(Growing::new(draft.id, draft.chat.clone(), draft.purpose.clone(), ""));
    }

    /// Adds text of the turn.
    pub fn heard_text(&mut self, text: &str) {
        if self.chars == 0 {
            self.pace = PreviewPace::new(self.rule, self.now_ms());
        }
        self.chars += text.chars().count();
        if let Some(unsent) = &self.unsent {
            unsent.push(text);
        }
        if let Some(message) = self.message.as_ref().filter(|_| self.ends.is_empty()) {
            self.tell |= message.push(text);
        }
    }

    /// Ends the message at offset `said`, because the turn calls a tool.
    pub fn heard_tool(&mut self, said: usize) {
        let last = self.ends.back().copied().unwrap_or(self.from);
        if said > last {
            self.ends.push_back(said);
        }
    }

    /// Waits until the message begins to be shown. Cancel-safe.
    pub async fn due(&self) {
        if let Some(unsent) = self.unsent.as_ref().filter(|_| self.message.is_none()) {
            // The next text may be far off: after a failed draft the message is due at once.
            unsent.failed().await;
        }
        match self.due_ms() {
            Some(at_ms) => tokio::time::sleep_until(self.began + ms(at_ms)).await,
            None => std::future::pending().await,
        }
    }

    fn due_ms(&self) -> Option<i64> {
        let waits = self.message.is_none() && self.unsent.as_ref().is_none_or(Unsent::has_failed);
        self.pace.due_ms(self.chars).filter(|_| waits)
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Shows new text: ends complete messages and begins a due one.
    pub async fn show(&mut self, host: &Host, heard: &Heard, turn: TurnId, said: &str) {
        while let Some(end) = self.ends.pop_front() {
            self.end_at(host, heard, turn, said, end).await;
        }
        if self.due_ms().is_some_and(|due_ms| due_ms <= self.now_ms()) {
            self.begin(host, heard, turn, &said[self.from..]).await;
        }
        if std::mem::take(&mut self.tell)
            && let Some(message) = &self.message
        {
            let target = Target::of(&heard.place.instance, &heard.place.chat);
            host.tell(HostEvent::Delivery(DeliveryNews::Grows(target, Arc::clone(message)))).await;
        }
    }

    /// Commits the first piece of a message and hands it over.
    async fn begin(&mut self, host: &Host, heard: &Heard, turn: TurnId, said: &str) {
        // A failed piece is not tried again before there is more text.
        self.pace.shown(self.now_ms(), self.chars);
        let Some(piece) = growing::piece(&self.adapter, said).await else { return };
        let mut new = heard.place.first_piece(host, Purpose::Reply, said.to_owned(), piece);
        self.belongs(&mut new, turn);
        let written = host.until_written("a growing message", || host.store.draft(new.clone())).await;
        let Some(id) = written else { return };
        crash_points::point("after_draft");
        let message = Growing::new(id, new.chat.clone(), Purpose::Reply, said);
        let draft = Box::new(owed(id, new, |n| host.store.part_key(id, n)));
        host.tell(HostEvent::Delivery(DeliveryNews::Draft(draft, Arc::clone(&message)))).await;
        self.message = Some(message);
    }

    /// Makes the message that ends at `end` final; later text begins another one.
    async fn end_at(&mut self, host: &Host, heard: &Heard, turn: TurnId, said: &str, end: usize) {
        let text = said[self.from..end].trim();
        if !text.is_empty() && !silence(text) {
            let mut new = heard.place.answer(host, text.to_owned()).await;
            self.belongs(&mut new, turn);
            self.take_over(&mut new);
            let written = host.until_written("a message of a turn", || host.store.owe(new.clone())).await;
            if let Some(id) = written {
                host.carry(vec![id], vec![new]).await;
            }
            self.before += 1;
        }
        self.from = end;
        self.chars = said[end..].chars().count();
        self.pace = PreviewPace::new(self.rule, self.now_ms());
        if let Some(unsent) = &self.unsent {
            unsent.begin_anew(&said[end..]);
        }
    }

    fn belongs(&self, new: &mut NewDelivery, turn: TurnId) {
        new.turn = Some(turn);
        if self.before > 0 {
            // The first message answers; later ones need not quote the question again.
            new.reply_to = None;
        }
    }

    /// Makes a delivery the final text of the message, if there is one.
    fn take_over(&mut self, new: &mut NewDelivery) {
        if let Some(message) = self.message.take() {
            new.draft = Some(message.id);
            files_go_behind(&mut new.parts);
        }
    }

    /// Returns the delivery at the end of the turn: the last text, as the final text of the message.
    pub async fn conclude(
        &mut self,
        host: &Host,
        heard: &Heard,
        said: &str,
        (says, end): (Option<String>, TurnEnd),
        dress: &Dress,
    ) -> Option<NewDelivery> {
        let text = match says {
            Some(says) if end == TurnEnd::Finished => dress.put_on(self.unsaid(said, says))?,
            Some(says) => says,
            None => {
                // The store ends a message of an earlier run without any text.
                let text = said[self.from..].trim();
                let is_cut_off = end == TurnEnd::Interrupted && !silence(text);
                let has_begun = self.message.is_some() && end != TurnEnd::Failed;
                if text.is_empty() || !(has_begun || is_cut_off) {
                    return None;
                }
                // Pieces were masked one by one, so the whole text is masked again.
                interrupted(&host.live().masker.mask(text))
            }
        };
        let mut new = heard.place.answer(host, text).await;
        if self.before > 0 {
            new.reply_to = None;
        }
        self.take_over(&mut new);
        Some(new)
    }

    /// Announces in the message that the turn continues in the next run of the host.
    pub async fn park(&self, host: &Host, said: &str) {
        let Some(message) = &self.message else { return };
        growing::show_parked(host, &self.adapter, message, &said[self.from..]).await;
    }

    /// Returns the part of an answer that no final message contains yet; `None`: nothing is left.
    fn unsaid(&self, said: &str, answer: String) -> Option<String> {
        let before = said[..self.from].trim();
        let rest = match answer.trim_start().strip_prefix(before) {
            Some(rest) if self.before > 0 => rest.trim_start().to_owned(),
            _ => answer,
        };
        let is_all_said = self.before > 0 && rest.trim().is_empty() && self.message.is_none();
        (!is_all_said).then_some(rest)
    }
}

/// Moves the files of the first part after the text, because an edit carries no files.
fn files_go_behind(parts: &mut Vec<NewPart>) {
    let Some(first) = parts.first_mut().filter(|first| !first.media.is_empty()) else { return };
    let media = std::mem::take(&mut first.media);
    if first.text.trim().is_empty() {
        let names: Vec<&str> = media.iter().map(|file| file.name.as_str()).collect();
        *first = NewPart::plain(first.n, names.join(", "));
    }
    let n = parts.last().map_or(1, |part| part.n + 1);
    parts.push(NewPart { media, ..NewPart::plain(n, "") });
}

fn ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use hermes_protocol::OutMedia;

    use super::*;

    #[test]
    fn files_of_an_answer_that_grew_go_behind_its_text() {
        let file = || OutMedia::new("a", "/x", "text/plain", "x.txt", 1);
        let mut parts = vec![NewPart { media: vec![file()], ..NewPart::plain(1, "one") }, NewPart::plain(2, "two")];
        files_go_behind(&mut parts);
        let shape: Vec<_> = parts.iter().map(|part| (part.n, part.text.as_str(), part.media.len())).collect();
        assert_eq!(shape, [(1, "one", 0), (2, "two", 0), (3, "", 1)]);
        let mut wordless = vec![NewPart { media: vec![file()], ..NewPart::plain(1, "") }];
        files_go_behind(&mut wordless);
        assert_eq!(wordless[0].text, "x.txt", "an edit to nothing is none");
    }
}
