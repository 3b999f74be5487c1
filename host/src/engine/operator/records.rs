//! Answers that only need the store: listings of sessions and deliveries.
//!
//! The running host and the command line without a host use this module, so they give the same answers.

use hermes_core::delivery::PartState;
use hermes_core::ids::{DeliveryId, SessionId};

use super::tasks;
use super::{
    ControlReply, ControlRequest, DeliveryInfo, ErrorKind, FullMessage, HitInfo, MessageInfo, PartInfo, SessionDetail,
    SessionInfo,
};
use crate::engine::services::OPERATOR;
use hermes_store::{
    DeliveryFilter, DeliveryState, MessageRow, OwedDelivery, Page, Resolved, SearchHit, SessionFilter, SessionRow,
    Store, StoreError, Viewer,
};

/// Messages in one page of a transcript.
const TRANSCRIPT_ROWS: u32 = 200;

/// Bytes of text in one page of a transcript. Escaped as JSON it still fits into a line.
const TRANSCRIPT_BYTES: usize = 128 << 10;

/// Ids that the answer to an ambiguous name lists.
const CANDIDATES_MAX: usize = 5;

/// Answers a read-only request; `None` for every other request.
pub async fn read_only(store: &Store, request: &ControlRequest) -> Option<ControlReply> {
    let reply = match request {
        ControlRequest::SessionList { limit, all } => sessions(store, *limit, *all).await,
        ControlRequest::SessionShow { session, limit } => session_with_messages(store, session, *limit).await,
        ControlRequest::SessionTranscript { session, after, from_byte } => {
            transcript(store, session, *after, *from_byte).await
        }
        ControlRequest::SessionSearch { query, limit } => search(store, query, *limit).await,
        ControlRequest::HandoffList { limit, all } => handoffs(store, *limit, *all).await,
        ControlRequest::HandoffShow { session } => handoff(store, session).await,
        ControlRequest::TaskList { limit, all } => tasks::list(store, Viewer::Operator, *limit, *all).await,
        ControlRequest::TaskShow { task } => tasks::show(store, Viewer::Operator, task).await,
        ControlRequest::OutboxList { limit, all } => deliveries(store, *limit, *all).await,
        ControlRequest::OutboxShow { delivery } => delivery_with_parts(store, DeliveryId(*delivery)).await,
        _ => return None,
    };
    Some(reply.unwrap_or_else(|error| store_failed(&error)))
}

/// Returns the answer for an error of the store.
pub fn store_failed(error: &StoreError) -> ControlReply {
    let kind = match error {
        StoreError::Busy { .. } | StoreError::Closed => ErrorKind::Busy,
        _ => ErrorKind::Failed,
    };
    ControlReply::error(kind, error.to_string())
}

/// Finds a session by id, unique prefix of an id, or title.
///
/// # Errors
///
/// The answer to return instead.
pub async fn find_session(store: &Store, name: &str) -> Result<SessionRow, ControlReply> {
    match store.resolve_session(name, None).await.map_err(|error| store_failed(&error))? {
        Resolved::Found(row) => Ok(*row),
        Resolved::Unknown => Err(nobodys(name)),
        Resolved::Ambiguous(ids) => Err(several(name, &ids)),
    }
}

/// Finds a session of the operator by id, unique prefix of an id, or title, as it is continued today. Sessions of other
/// users can only continue in their own chat.
///
/// # Errors
///
/// The answer to return instead.
pub async fn find_own_session(store: &Store, name: &str) -> Result<SessionRow, ControlReply> {
    let failed = |error: StoreError| store_failed(&error);
    let row = match store.resolve_session(name, Some(OPERATOR)).await.map_err(failed)? {
        Resolved::Found(row) => *row,
        Resolved::Ambiguous(ids) => return Err(several(name, &ids)),
        Resolved::Unknown => {
            let refused = |words| ControlReply::error(ErrorKind::Refused, words);
            return Err(match store.resolve_session(name, None).await.map_err(failed)? {
                Resolved::Unknown => nobodys(name),
                Resolved::Found(row) => refused(anothers(&row)),
                Resolved::Ambiguous(_) => {
                    refused(format!("the sessions that begin with {name:?} belong to other users"))
                }
            });
        }
    };
    Ok(store.session_tip(&row.id).await.map_err(failed)?.unwrap_or(row))
}

/// Returns the reason why a session of another user cannot move.
fn anothers(row: &SessionRow) -> String {
    let called = row.title.as_ref().map_or_else(|| format!("session {}", row.id), |title| format!("{title:?}"));
    let owner = row.owner.as_deref().unwrap_or("nobody");
    format!(
        "{called} belongs to {owner} and can only be continued there; `hermes-host session show {}` shows it",
        row.id
    )
}

fn nobodys(name: &str) -> ControlReply {
    let words = format!("no session is named {name:?}; `hermes-host session list --all` shows the sessions");
    ControlReply::error(ErrorKind::NotFound, words)
}

fn several(name: &str, ids: &[SessionId]) -> ControlReply {
    let ids: Vec<&str> = ids.iter().take(CANDIDATES_MAX).map(|SessionId(id)| id.as_str()).collect();
    let words = format!("several sessions begin with {name:?} ({}); write more characters of the id", ids.join(", "));
    ControlReply::error(ErrorKind::Invalid, words)
}

async fn sessions(store: &Store, limit: u32, all: bool) -> Result<ControlReply, StoreError> {
    let filter = SessionFilter { with_ended: all, limit, ..SessionFilter::default() };
    let sessions = store.sessions(filter).await?.into_iter().map(session_info).collect();
    Ok(ControlReply::Sessions { sessions })
}

async fn session_with_messages(store: &Store, name: &str, limit: u32) -> Result<ControlReply, StoreError> {
    let row = match find_session(store, name).await {
        Ok(row) => row,
        Err(reply) => return Ok(reply),
    };
    let messages = store.history(&row.id, limit).await?.into_iter().map(message_info).collect();
    Ok(ControlReply::Session { session: session_info(row), messages })
}

async fn search(store: &Store, query: &str, limit: u32) -> Result<ControlReply, StoreError> {
    let hits = store.search(query, limit).await?.into_iter().map(hit_info).collect();
    Ok(ControlReply::Hits { hits })
}

async fn handoffs(store: &Store, limit: u32, all: bool) -> Result<ControlReply, StoreError> {
    let handoffs = store.handoffs(all, limit).await?.iter().map(crate::engine::handoff::info).collect();
    Ok(ControlReply::Handoffs { handoffs })
}

async fn handoff(store: &Store, name: &str) -> Result<ControlReply, StoreError> {
    let row = match find_session(store, name).await {
        Ok(row) => row,
        Err(reply) => return Ok(reply),
    };
    Ok(match store.handoff(&row.id).await? {
        Some(row) => ControlReply::Handoff { handoff: Box::new(crate::engine::handoff::info(&row)) },
        None => store_failed(&StoreError::Missing { what: format!("session {}", row.id) }),
    })
}

async fn deliveries(store: &Store, limit: u32, all: bool) -> Result<ControlReply, StoreError> {
    let filter = |state, dead| DeliveryFilter { limit, state, dead, ..DeliveryFilter::default() };
    let rows = if all {
        store.deliveries(filter(None, false)).await?
    } else {
        // Owed deliveries, growing ones, and those that need the operator.
        let mut rows = store.deliveries(filter(Some(DeliveryState::Owed), false)).await?;
        rows.extend(store.deliveries(filter(Some(DeliveryState::Drafting), false)).await?);
        rows.extend(store.deliveries(filter(None, true)).await?);
        rows.sort_by_key(|row| std::cmp::Reverse(row.id));
        rows.dedup_by_key(|row| row.id);
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        rows
    };
    Ok(ControlReply::Outbox { deliveries: rows.iter().map(delivery_info).collect() })
}

async fn delivery_with_parts(store: &Store, id: DeliveryId) -> Result<ControlReply, StoreError> {
    let Some(row) = store.delivery(id).await? else {
        let sentence = format!("there is no delivery {}; `hermes-host outbox list --all` shows the deliveries", id.0);
        return Ok(ControlReply::error(ErrorKind::NotFound, sentence));
    };
    let parts = row.parts.iter().map(part_info).collect();
    Ok(ControlReply::Delivery { delivery: delivery_info(&row), text: row.markdown, parts })
}

/// Returns a page of a transcript that fits into a line, regardless of the length of its messages.
async fn transcript(store: &Store, name: &str, after: i64, from_byte: usize) -> Result<ControlReply, StoreError> {
    let row = match find_session(store, name).await {
        Ok(row) => row,
        Err(answer) => return Ok(answer),
    };
    let page = Page { rows_max: TRANSCRIPT_ROWS, bytes_max: TRANSCRIPT_BYTES };
    let rows = store.messages_after(&row.id, after, page).await?;
    let mut messages: Vec<FullMessage> = rows
        .into_iter()
        .map(|row| FullMessage { id: row.id, at_ms: row.at_ms, rest_from_byte: None, message: row.message })
        .collect();
    if let Some(first) = messages.first_mut() {
        cut(first, from_byte);
        if first.rest_from_byte.is_some() {
            messages.truncate(1);
        }
    }
    Ok(ControlReply::Transcript { session: Box::new(session_detail(row)), messages })
}

/// Cuts a message's text to the part after a byte that fits into the page.
fn cut(message: &mut FullMessage, from_byte: usize) {
    let text = &message.message.content;
    let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let begin = boundary(from_byte);
    let end = boundary(begin.saturating_add(TRANSCRIPT_BYTES));
    message.rest_from_byte = (end < text.len()).then_some(end);
    message.message.content = text[begin..end].to_owned();
}

fn session_detail(row: SessionRow) -> SessionDetail {
    SessionDetail {
        owner: row.owner.clone(),
        parent: row.parent.as_ref().map(|parent| parent.0.clone()),
        lineage: row.lineage.map(|lineage| lineage.as_str().to_owned()),
        summary: row.summary.clone(),
        turns: row.turns,
        input_tokens: row.usage.input_tokens,
        output_tokens: row.usage.output_tokens,
        info: session_info(row),
    }
}

/// Converts a session for a listing.
pub fn session_info(row: SessionRow) -> SessionInfo {
    SessionInfo {
        id: row.id.0,
        title: row.title,
        source: row.source,
        messages: row.messages,
        started_ms: row.started_ms,
        ended_ms: row.ended_ms,
        end_reason: row.end_reason,
        last_ms: row.active_ms,
    }
}

/// Converts a message for a listing.
pub fn message_info(row: MessageRow) -> MessageInfo {
    MessageInfo { role: row.message.role.as_str().to_owned(), content: row.message.content, at_ms: row.at_ms }
}

fn hit_info(hit: SearchHit) -> HitInfo {
    HitInfo { session: hit.session.0, title: hit.title, role: hit.role, snippet: hit.snippet, at_ms: hit.at_ms }
}

/// Converts a delivery for a listing.
pub fn delivery_info(row: &OwedDelivery) -> DeliveryInfo {
    let thread = row.chat.thread.as_ref().map_or_else(String::new, |thread| format!(":{thread}"));
    // Part 0 of a growing message is a preview, not an owed part.
    let parts = || row.parts.iter().filter(|part| part.n > 0);
    let delivered = parts().filter(|part| matches!(part.state, PartState::Delivered { .. })).count();
    DeliveryInfo {
        id: row.id.0,
        instance: row.instance.clone(),
        chat: format!("{}{thread}", row.chat.id),
        session: row.session.as_ref().map(ToString::to_string),
        purpose: row.purpose.as_str().to_owned(),
        state: row.state.as_str().to_owned(),
        why: row.why.clone(),
        since_ms: row.created_ms,
        deadline_ms: row.deadline_ms,
        next_try_ms: parts()
            .find(|part| !part.state.is_settled())
            .map(|part| part.not_before_ms)
            .filter(|at_ms| *at_ms > 0 && row.state.is_live()),
        chat_id: row.chat.id.clone(),
        parts: u32::try_from(parts().count()).unwrap_or(u32::MAX),
        delivered: u32::try_from(delivered).unwrap_or(u32::MAX),
    }
}

fn part_info(part: &hermes_store::OwedPart) -> PartInfo {
    let message_ids = match &part.state {
        PartState::Delivered { receipt } => receipt.message_ids.clone(),
        _ => Vec::new(),
    };
    PartInfo {
        n: part.n,
        state: part.state.word().to_owned(),
        attempts: part.facts.attempts,
        not_before_ms: Some(part.not_before_ms).filter(|at| *at > 0),
        message_ids,
        detail: part.detail.clone().filter(|detail| !detail.is_empty()),
        text: part.text.clone(),
    }
}
