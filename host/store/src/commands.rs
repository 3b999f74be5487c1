//! Changes by a command: transaction (g).

use hermes_core::ids::DeliveryId;
use rusqlite::{Connection, params};

use super::sql::{change, json};
use super::writer::Outcome;
use super::{
    Change, CommandTx, HomeChannelRow, Result, Store, asks, directory, effects, handoff, inbox, kv, lineage, mirror,
    observed, outbox, pairing, sessions, titles, transcript,
};

impl Store {
    /// (g) Applies the changes of a command, marks its event as `answered`, and queues its replies, atomically.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`](super::StoreError::Conflict) if the event was answered before, and the errors
    /// of the individual changes.
    pub async fn command(&self, command: CommandTx) -> Result<Vec<DeliveryId>> {
        let nonce = self.nonce();
        self.write(move |db| {
            if let Some(event) = command.inbox {
                inbox::command_answered(db, event)?;
            }
            for change in &command.changes {
                apply(db, change, command.now_ms)?;
            }
            command.reply.iter().map(|reply| outbox::insert(db, &nonce, reply, None)).collect()
        })
        .await
    }
}

fn apply(db: &Connection, order: &Change, now_ms: i64) -> Outcome<()> {
    match order {
        Change::EndSession { session, reason } => sessions::end(db, session, reason, now_ms),
        Change::ReopenSession { session } => sessions::reopen(db, session),
        Change::NewSession(new) => sessions::insert(db, new),
        Change::BindRoute(route) => sessions::bind_route(db, route),
        Change::BindBorn(route) => handoff::bind_born(db, route, now_ms),
        Change::UnbindRoute { key } => sessions::unbind_route(db, key).map(drop),
        Change::Fork(new) => lineage::fork(db, new),
        Change::Compress(new) => lineage::compress(db, new, now_ms),
        Change::Undo { session, from } => transcript::take_back(db, session, *from),
        Change::Redo { session, number } => transcript::bring_back(db, session, *number),
        Change::Hear { inbox, input } => inbox::hear(db, *inbox, input),
        Change::SetTitle { session, title } => titles::rename(db, session, title.as_deref()),
        Change::Settings { session, settings } => sessions::set_settings(db, session, settings),
        Change::Grant(grant) => pairing::grant(db, grant),
        Change::Revoke { instance, user } => pairing::revoke(db, instance, user),
        Change::PairingRequest(request) => pairing::write_request(db, request),
        Change::PairingDone { request, counted_as } => pairing::done(db, request, counted_as, now_ms),
        Change::ClearPairing { instance } => pairing::clear(db, instance.as_deref()),
        Change::Lockout(lockout) => pairing::lockout(db, lockout),
        Change::Offered(offer) => pairing::put_up(db, offer),
        Change::Claimed { session, instance, chat } => handoff::pulled(db, session, instance, chat, now_ms),
        Change::OfferTaken { session } => pairing::offer_taken(db, session),
        Change::HomeChannel(home) => set_home(db, home),
        Change::ForgetHomeChannel { instance } => {
            change(db, "DELETE FROM home_channels WHERE instance = ?1", [instance]).map(|_| ())
        }
        Change::AskOver { delivery, outcome } => asks::over(db, *delivery, outcome),
        Change::DeadTarget(target) => effects::dead_target(db, target),
        Change::Revive { instance, chat } => effects::revive(db, instance, chat),
        Change::Migrated { instance, from, to, routes } => effects::migrated(db, instance, from, to, routes),
        Change::SawChat { instance, chat, seen_ms } => directory::saw(db, instance, chat, *seen_ms),
        Change::Mirror { session, said } => mirror::say(db, session, said),
        Change::AdapterEnabled { instance, on } => switch_adapter(db, instance, *on),
        Change::Observe { instance, chat, line } => observed::keep(db, instance, chat, line),
        Change::ForgetObserved(upto) => observed::forget(db, upto),
        Change::DropInbox { ids, why } => ids.iter().try_for_each(|id| inbox::drop_one(db, *id, why, false)),
        Change::Flag { key, value: Some(value) } => kv::set(db, kv::HOST_SCOPE, key, value),
        Change::Flag { key, value: None } => kv::delete(db, kv::HOST_SCOPE, key),
    }
}

fn set_home(db: &Connection, home: &HomeChannelRow) -> Outcome<()> {
    change(
        db,
        "INSERT INTO home_channels (instance, chat, set_by, set_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET chat = excluded.chat, set_by = excluded.set_by, set_ms = excluded.set_ms",
        params![home.instance, json(&home.chat)?, home.set_by, home.set_ms],
    )?;
    Ok(())
}

fn switch_adapter(db: &Connection, instance: &str, on: bool) -> Outcome<()> {
    change(
        db,
        "INSERT INTO adapters (instance, enabled) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET enabled = excluded.enabled",
        params![instance, on],
    )?;
    Ok(())
}
