//! Side effects of a settled part: unreachable chats, migrations, missing threads.

use hermes_core::ids::DeliveryId;
use hermes_protocol::Chat;
use rusqlite::{Connection, params};

use super::sql::{change, change_one, collect, first, json, parsed};
use super::writer::Outcome;
use super::{DeadTargetRow, Effect, RouteRow, Settled, directory, drafts, outbox, pairing, sessions};

/// Applies one effect of a settled part of `delivery`.
pub(super) fn apply(
    db: &Connection,
    nonce: &str,
    delivery: DeliveryId,
    effect: &Effect,
    settled: &mut Settled,
) -> Outcome<()> {
    match effect {
        Effect::Report(notice) => {
            settled.report = Some(outbox::insert(db, nonce, notice, None)?);
            Ok(())
        }
        Effect::DeadTarget(target) => dead_target(db, target),
        Effect::Revive { instance, chat } => revive(db, instance, chat),
        Effect::Migrated { instance, from, to, routes } => migrated(db, instance, from, to, routes),
        Effect::ThreadGone => thread_gone(db, delivery),
        Effect::DraftGone => drafts::gone(db, delivery),
        Effect::CodeUntold { hash } => pairing::take_back(db, hash),
    }
}

/// Records that a chat is unreachable.
pub(super) fn dead_target(db: &Connection, target: &DeadTargetRow) -> Outcome<()> {
    let DeadTargetRow { instance, chat, why, since_ms } = target;
    change(
        db,
        "INSERT INTO dead_targets (instance, chat_type, chat_id, thread, chat, why, since_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET why = excluded.why, chat = excluded.chat",
        params![instance, chat.kind.as_str(), chat.id, thread(chat), json(chat)?, why, since_ms],
    )?;
    Ok(())
}

/// Records that a chat is reachable again, including all its threads.
pub(super) fn revive(db: &Connection, instance: &str, chat: &Chat) -> Outcome<()> {
    change(db, "DELETE FROM dead_targets WHERE instance = ?1 AND chat_id = ?2", params![instance, chat.id])?;
    Ok(())
}

fn thread(chat: &Chat) -> &str {
    chat.thread.as_deref().unwrap_or_default()
}

/// Redirects pending deliveries from `from` to `to` and updates the routes, the home channel and the directory.
pub(super) fn migrated(
    db: &Connection,
    instance: &str,
    from: &Chat,
    to: &Chat,
    routes: &[(String, RouteRow)],
) -> Outcome<()> {
    let owed = db.prepare_cached(
        "SELECT id, chat FROM outbox INDEXED BY outbox_live WHERE state IN ('drafting', 'owed') AND instance = ?1",
    )?;
    let owed = collect(owed, [instance], |row| Ok((row.get::<_, i64>(0)?, parsed::<Chat>(row, 1)?)))?;
    for (id, chat) in owed {
        if let Some(chat) = moved(&chat, from, to) {
            // The message has another id there, or none.
            let sql = "UPDATE outbox SET chat = ?2, draft_message = NULL WHERE id = ?1";
            change(db, sql, params![id, json(&chat)?])?;
        }
    }
    let home = db.prepare_cached("SELECT chat FROM home_channels WHERE instance = ?1")?;
    let home = first(home, [instance], |row| parsed::<Chat>(row, 0))?;
    if let Some(home) = home.and_then(|home| moved(&home, from, to)) {
        change(db, "UPDATE home_channels SET chat = ?2 WHERE instance = ?1", params![instance, json(&home)?])?;
    }
    for (old_key, route) in routes {
        // A session that is not stored yet has no route here; its task stores both.
        if sessions::unbind_route(db, old_key)? {
            sessions::bind_route(db, route)?;
        }
    }
    directory::moved(db, instance, from, to)?;
    revive(db, instance, to)
}

/// Returns the new id of a chat if it is the one that migrated.
fn moved(chat: &Chat, from: &Chat, to: &Chat) -> Option<Chat> {
    (chat.kind == from.kind && chat.id == from.id).then(|| {
        let mut moved = chat.clone();
        moved.kind = to.kind.clone();
        moved.id = to.id.clone();
        moved
    })
}

fn thread_gone(db: &Connection, delivery: DeliveryId) -> Outcome<()> {
    let what = || format!("delivery {delivery}");
    let chat =
        first(db.prepare_cached("SELECT chat FROM outbox WHERE id = ?1")?, [delivery.0], |row| parsed::<Chat>(row, 0))?;
    let mut chat = chat.ok_or_else(|| super::error::Fault::missing(what()))?;
    chat.thread = None;
    chat.thread_name = None;
    change_one(db, "UPDATE outbox SET chat = ?2 WHERE id = ?1", params![delivery.0, json(&chat)?], what)
}
