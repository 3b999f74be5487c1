//! The operator's requests over the control socket.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_core::ids::DeliveryId;
use hermes_protocol::Purpose;
use tokio::sync::{mpsc, oneshot};

use super::stop::End;
use super::{App, WouldNotStart};
use crate::engine::attachments::lend::From;
use crate::engine::attachments::outgoing;
use crate::engine::background::tasks::act::By;
use crate::engine::background::{processes, tasks};
use crate::engine::context::compose;
use crate::engine::dispatcher::pairing::{OPERATOR, PairingCall, PairingChange, greet};
use crate::engine::handoff;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::operator::records::{find_session, read_only};
use crate::engine::operator::tasks::{find as find_task, list as list_tasks, show as show_task};
use crate::engine::operator::{Caller, ControlReply, ControlRequest, DeliveryInfo, ErrorKind, TaskInfo};
use crate::engine::outbox::{Target, not_asked};
use crate::engine::reply::transcript_copy;
use crate::engine::runtime::Host;
use crate::engine::targets;
use crate::engine::targets::{Address, Destination};
use crate::surface::control::Asked;
use hermes_core::nearest::nearest;
use hermes_store::{Change, CommandTx, DeliveryState, HandoffRow, OwedDelivery, SessionRow, StoreError, Viewer};

/// The longest text of `send`, in bytes.
const SEND_BYTES_MAX: usize = 256 << 10;

/// Answers requests concurrently; the socket limits their number.
pub async fn answer_all(app: Arc<App>, mut asked: mpsc::Receiver<Asked>) {
    while let Some((request, caller, reply)) = asked.recv().await {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let answer = app.answer(caller, request).await.unwrap_or_else(|refusal| *refusal);
            // The client may be gone.
            let _ = reply.send(answer);
        });
    }
}

/// An answer or a refusal. Both are sent to the client.
pub(super) type Answer = Result<ControlReply, Refusal>;

/// A refusal with its reason. Boxed, because it is rare.
pub(super) type Refusal = Box<ControlReply>;

impl App {
    async fn answer(&self, caller: Caller, request: ControlRequest) -> Answer {
        match caller {
            Caller::Operator => self.answer_operator(request).await,
            Caller::Run(run) => self.answer_run(&run, request).await,
        }
    }

    pub(super) async fn answer_operator(&self, request: ControlRequest) -> Answer {
        match request {
            ControlRequest::Status {} | ControlRequest::AdapterList {} => {
                Ok(ControlReply::Status(Box::new(self.status().await)))
            }
            ControlRequest::Stop {} => self.end(End::Stop, "The host is stopping.").await,
            ControlRequest::Restart {} => self.restart().await,
            ControlRequest::HandOver {} if self.alone => self.end(End::HandOver, "The host is handing over.").await,
            ControlRequest::HandOver {} => {
                Err(refused("the host of this home folder was not started by a terminal, so it does not hand over"))
            }
            ControlRequest::Drain { undo: false } => self.drain_only().await,
            ControlRequest::Drain { undo: true } => self.drain_no_more().await,
            ControlRequest::Reload {} => self.reload_and_tell().await,
            ControlRequest::Send { target, text, file, mirror } => {
                self.send(&target, text, file.as_deref().map(|file| (file, From::Anywhere)), mirror).await
            }
            ControlRequest::AdapterEnable { instance } => self.switch(&instance, true).await,
            ControlRequest::AdapterDisable { instance } => self.switch(&instance, false).await,
            ControlRequest::AdapterReload { instance } => {
                self.instance(&instance)?;
                self.reload_adapter(&instance).await
            }
            ControlRequest::AdapterLink { instance, rotate } => self.link(&instance, rotate).await,
            ControlRequest::PairingList {} => {
                let ask = |reply| Control::Pairing(PairingCall::List(reply));
                self.ask(ask).await
            }
            ControlRequest::PairingApprove { instance, code } => {
                self.approve_pairing(instance, code, OPERATOR.to_owned()).await
            }
            ControlRequest::PairingRevoke { instance, user } => {
                self.pairing(PairingChange::Revoke { instance, user }).await
            }
            ControlRequest::PairingClear { instance } => {
                instance.as_deref().map_or(Ok(()), |instance| self.instance(instance))?;
                self.pairing(PairingChange::Clear { instance }).await
            }
            ControlRequest::SessionEnd { session } => self.end_session(&session).await,
            ControlRequest::SessionDelete { session } => self.delete_session(&session).await,
            ControlRequest::OutboxRetry { delivery } => {
                let known = self.delivery(delivery).await?;
                if known.state == DeliveryState::Owed && stored(self.host.store.outbox_hurry(known.id)).await? {
                    return Ok(self.hurry(&known).await);
                }
                let owed = match self.host.store.outbox_retry(DeliveryId(delivery)).await {
                    Err(StoreError::Conflict { .. }) => return Err(refused(nothing_to_retry(delivery, known.state))),
                    other => stored(async { other }).await?,
                };
                self.refresh(&owed.clone(), Some(owed)).await;
                Ok(ControlReply::done(format!("Retrying delivery {delivery}.")))
            }
            ControlRequest::Handoff { session, instance, wait_ms } => {
                let asked = handoff::request(&self.host, &session, &instance).await.map_err(not_handed_over)?;
                let row = handoff::until_over(&self.host, &asked, wait_ms).await.map_err(not_handed_over)?;
                Ok(handed_over(&row))
            }
            ControlRequest::HandoffOffer { session } => {
                handoff::offer(&self.host, &session).await.map_err(not_handed_over)
            }
            ControlRequest::HandoffCancel { session } => {
                handoff::cancel(&self.host, &session).await.map_err(not_handed_over).map(|row| handed_over(&row))
            }
            ControlRequest::TaskList { limit, all } => {
                let mut reply = stored(list_tasks(&self.host.store, Viewer::Operator, limit, all)).await?;
                if let ControlReply::Tasks { tasks } = &mut reply {
                    tasks.extend(processes::listed(&self.host));
                }
                Ok(reply)
            }
            ControlRequest::TaskShow { task } => match meant(&self.host, &task)? {
                Some(command) => Ok(ControlReply::Task { task: Box::new(command), events: Vec::new() }),
                None => stored(show_task(&self.host.store, Viewer::Operator, &task)).await,
            },
            ControlRequest::TaskCancel { task, why } => self.cancel_task(&task, &why).await,
            ControlRequest::OutboxDrop { delivery, why } => {
                let owed = self.delivery(delivery).await?;
                self.refresh(&owed, None).await;
                self.host.tell_untold(Some(&owed)).await;
                match self.host.store.outbox_drop(DeliveryId(delivery), &why).await {
                    Err(StoreError::Conflict { .. }) => {
                        Err(refused(format!("delivery {delivery} has ended, so there is nothing to drop")))
                    }
                    other => {
                        stored(async { other }).await?;
                        self.host.handoffs.answered(owed.in_reply_to);
                        not_asked(&self.host, &owed, "dropped by the operator").await;
                        Ok(ControlReply::done(dropped(delivery, &owed)))
                    }
                }
            }
            reads => match read_only(&self.host.store, &reads).await {
                Some(mut reply) => {
                    self.add_waits(&mut reply);
                    Ok(reply)
                }
                None => Err(refused("unknown request; the running host may be older than this program, so restart it")),
            },
        }
    }

    async fn end(&self, end: End, words: &str) -> Answer {
        // A full channel means that the host is already ending.
        let _ = self.end.try_send(end);
        Ok(ControlReply::done(words))
    }

    /// Restarts the host if the next run would start.
    async fn restart(&self) -> Answer {
        if self.alone {
            return Err(refused(
                "this host belongs to a terminal and ends with it; start another one with `hermes-host run`",
            ));
        }
        if let Err(why) = self.would_start().await {
            let words = format!("not restarted, because the host would not start again:\n{why}");
            let kind = if matches!(why, WouldNotStart::Program { .. }) { ErrorKind::Failed } else { ErrorKind::Config };
            return Err(refusal(kind, words));
        }
        self.end(End::Restart, "The host is restarting.").await
    }

    /// Stops accepting events and waits for running work. The process stays.
    async fn drain_only(&self) -> Answer {
        if self.host.draining.is_cancelled() {
            return Err(refused("the host is already stopping"));
        }
        self.host.rests.store(true, Ordering::Relaxed);
        self.state.send_replace("draining");
        let drained = self.ask(Control::DrainLanes).await;
        if !self.host.rests.load(Ordering::Relaxed) && !self.host.draining.is_cancelled() {
            return Err(refused("the drain was undone before it completed; the host accepts events again"));
        }
        drained?;
        Ok(ControlReply::done(
            "Drained: no turn is running, and new events wait in the inbox. Next: `hermes-host stop`, `hermes-host \
             restart`, or `hermes-host drain --undo` to accept events again.",
        ))
    }

    /// Accepts events again, beginning with those that waited since the drain.
    async fn drain_no_more(&self) -> Answer {
        if self.host.draining.is_cancelled() {
            return Err(refused("the host is already stopping, which cannot be undone"));
        }
        if !self.host.rests.load(Ordering::Relaxed) {
            return Err(refused("the host is not draining"));
        }
        let waited = stored(crate::engine::recovery::go_on(&self.host)).await?;
        self.state.send_replace("online");
        Ok(ControlReply::done(match waited {
            0 => "The host accepts events again.".to_owned(),
            n => format!("The host accepts events again; {} waited.", hermes_core::text::counted(n as u64, "event")),
        }))
    }

    /// Checks the length of a text without a file.
    pub(super) fn fits(&self, text: &str) -> Result<(), Refusal> {
        match text.len() {
            1..=SEND_BYTES_MAX if !text.trim().is_empty() => Ok(()),
            _ => Err(refusal(ErrorKind::Invalid, format!("a text must have 1 to {SEND_BYTES_MAX} bytes"))),
        }
    }

    pub(super) async fn send(&self, target: &str, text: String, file: Option<(&Path, From)>, mirror: bool) -> Answer {
        if file.is_none() || text.len() > SEND_BYTES_MAX {
            self.fits(&text)?;
        }
        let found = targets::resolve(&self.host, target, None).await;
        let address = match found.map_err(|words| refusal(ErrorKind::NotFound, words))? {
            Destination::Chat(address) => address,
            Destination::Local => {
                let words = "`local` is not a chat, so nothing is sent; name a chat";
                return Err(refusal(ErrorKind::Invalid, words));
            }
        };
        let text = self.host.live().masker.mask(hermes_core::delivery::strip_control(&text)).into_owned();
        let Address { instance, chat } = address;
        let delivery = match file {
            None => compose(&self.host, &instance, chat, Purpose::Reply, text).await,
            Some((file, from)) if file.is_absolute() => {
                outgoing::one_file(&self.host, &instance, chat, text, (file, from))
                    .await
                    .map_err(|error| refusal(ErrorKind::Invalid, error.to_string()))?
            }
            Some((file, _)) => {
                let words = format!(
                    "{file:?} is not an absolute path, and the host may run in another folder; pass an absolute path"
                );
                return Err(refusal(ErrorKind::Invalid, words));
            }
        };
        let (id, note) = match mirror {
            true => stored(transcript_copy::owe(&self.host, delivery.clone())).await?,
            false => (stored(self.host.store.owe(delivery.clone())).await?, None),
        };
        self.host.carry(vec![id], vec![delivery]).await;
        Ok(ControlReply::Owed { delivery: id.0, note: note.map(str::to_owned) })
    }

    /// Switches an instance on or off permanently.
    async fn switch(&self, instance: &str, on: bool) -> Answer {
        self.instance(instance)?;
        let section = self.host.live().config.adapters.get(instance).and_then(|section| section.enabled);
        if section.is_some_and(|enabled| enabled != on) {
            let words = format!("`enabled` in [adapter.{instance}] has the opposite value; change it there");
            return Err(refused(words));
        }
        let changes = vec![Change::AdapterEnabled { instance: instance.to_owned(), on }];
        self.write(changes).await?;
        self.host.switch_adapter(instance, on);
        if on {
            Ok(ControlReply::done(format!("Starting {instance}.")))
        } else {
            Ok(ControlReply::done(format!("Stopping {instance}; it stays off.")))
        }
    }

    pub(super) fn instance(&self, instance: &str) -> Result<(), Refusal> {
        if self.adapters.get(instance).is_some() {
            return Ok(());
        }
        let names: Vec<String> = self.adapters.all().iter().map(|adapter| adapter.instance().to_string()).collect();
        let hint = match nearest(instance, names.iter().map(String::as_str)) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if names.is_empty() => "; no adapter is configured".to_owned(),
            None => format!("; the instances are {}", names.join(", ")),
        };
        Err(refusal(ErrorKind::NotFound, format!("there is no instance {instance:?}{hint}")))
    }

    /// Admits the sender who was shown a code; `by` entered it.
    pub(super) async fn approve_pairing(&self, instance: String, code: String, by: String) -> Answer {
        self.instance(&instance)?;
        self.pairing(PairingChange::Approve { instance, code, by }).await
    }

    /// Changes the pairing state and stores the change before it answers.
    async fn pairing(&self, change: PairingChange) -> Answer {
        let (reply, changes) = self.ask(|reply| Control::Pairing(PairingCall::Change(change, reply))).await?;
        self.write(changes.clone()).await?;
        greet(&self.host, &changes);
        Ok(reply)
    }

    async fn end_session(&self, name: &str) -> Answer {
        let id = self.session(name).await?.id;
        if let Some(lease) = self.host.handoffs.lease(&id) {
            let instance = lease.instance;
            return Err(refused(format!(
                "session {id} is being handed off to {instance}; cancel that with `hermes-host handoff cancel {id}`"
            )));
        }
        let session = id.clone();
        if self.ask(|reply| Control::End { session, reply }).await? {
            Ok(ControlReply::done(format!("Ended session {id}; the next message in its chat starts a new one.")))
        } else {
            Err(refusal(ErrorKind::Failed, format!("session {id} could not be ended; see the log for the reason")))
        }
    }

    async fn cancel_task(&self, name: &str, why: &str) -> Answer {
        if let Some(command) = meant(&self.host, name)?
            && self.host.runtime.end_any_process(&command.id)
        {
            return Ok(ControlReply::done(format!("Stopped command {}.", command.id)));
        }
        let (row, _) = find_task(&self.host.store, Viewer::Operator, name).await.map_err(Box::new)?;
        let by = By { viewer: Viewer::Operator, key: None, session: None };
        let row = tasks::give_up(&self.host, &by, &row.id, why).await.map_err(refused)?;
        Ok(ControlReply::done(format!("Cancelled task {}; its subscribers are notified.", row.id)))
    }

    async fn delete_session(&self, name: &str) -> Answer {
        let id = self.session(name).await?.id;
        let files = stored(self.host.store.session_delete(&id)).await?;
        self.host.media.discard(files).await;
        let session = id.clone();
        self.ask(|reply| Control::Forget { session, reply }).await?;
        Ok(ControlReply::done(format!("Deleted session {id}.")))
    }

    async fn session(&self, name: &str) -> Result<SessionRow, Refusal> {
        find_session(&self.host.store, name).await.map_err(Box::new)
    }

    async fn delivery(&self, id: i64) -> Result<OwedDelivery, Refusal> {
        stored(self.host.store.delivery(DeliveryId(id))).await?.ok_or_else(|| {
            refusal(
                ErrorKind::NotFound,
                format!("there is no delivery {id}; `hermes-host outbox list` shows the deliveries"),
            )
        })
    }

    /// Retries a waiting delivery at once.
    async fn hurry(&self, delivery: &OwedDelivery) -> ControlReply {
        let target = Target::of(&delivery.instance, &delivery.chat);
        self.host.tell(HostEvent::control(Control::Hurry { target })).await;
        let (id, instance) = (delivery.id, &delivery.instance);
        match self.host.adapter(instance).is_some_and(|adapter| adapter.is_online()) {
            true => ControlReply::done(format!("Retrying delivery {id} now.")),
            false => ControlReply::done(format!("Delivery {id} will be retried as soon as {instance} is online.")),
        }
    }

    /// Adds waits to deliveries that the store does not know: rate limits of the platform, and the next attempt of an
    /// adapter without a link.
    fn add_waits(&self, reply: &mut ControlReply) {
        match reply {
            ControlReply::Outbox { deliveries } => deliveries.iter_mut().for_each(|delivery| self.add_wait(delivery)),
            ControlReply::Delivery { delivery, parts, .. } => {
                self.add_wait(delivery);
                let next = parts.iter_mut().find(|part| matches!(part.state.as_str(), "owed" | "deferred" | "unknown"));
                if let Some(part) = next {
                    part.not_before_ms = part.not_before_ms.max(delivery.next_try_ms);
                }
            }
            _ => {}
        }
    }

    fn add_wait(&self, delivery: &mut DeliveryInfo) {
        if delivery.state != "owed" {
            return;
        }
        let now_ms = self.host.now_ms();
        let held = self.host.holds.of(&delivery.instance).until_ms(&delivery.instance, &delivery.chat_id, now_ms);
        let linked = self.host.adapter(&delivery.instance).and_then(|adapter| adapter.state().next_try_ms());
        delivery.next_try_ms = delivery.next_try_ms.max(held).max(linked);
    }

    async fn refresh(&self, delivery: &OwedDelivery, owed: Option<OwedDelivery>) {
        let target = Target::of(&delivery.instance, &delivery.chat);
        let control = Control::Refresh { target, owed: owed.map(Box::new), id: delivery.id };
        self.host.tell(HostEvent::control(control)).await;
    }

    pub(super) async fn write(&self, changes: Vec<Change>) -> Result<(), Refusal> {
        if changes.is_empty() {
            return Ok(());
        }
        let order = CommandTx { inbox: None, changes, reply: Vec::new(), now_ms: self.host.now_ms() };
        stored(self.host.store.command(order)).await.map(drop)
    }

    /// Sends a request to the dispatcher.
    pub(super) async fn ask<T>(&self, control: impl FnOnce(oneshot::Sender<T>) -> Control) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.host.tell(HostEvent::control(control(reply))).await;
        answer.await.map_err(|_| refusal(ErrorKind::Busy, "the host is stopping"))
    }
}

/// Returns the result of the store, or its error as a refusal.
pub(super) async fn stored<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, Refusal> {
    asked.await.map_err(|error| {
        let kind = match error {
            StoreError::Missing { .. } => ErrorKind::NotFound,
            StoreError::Conflict { .. } | StoreError::TitleTaken { .. } | StoreError::QuestionOver { .. } => {
                ErrorKind::Refused
            }
            StoreError::Busy { .. } | StoreError::Closed => ErrorKind::Busy,
            _ => ErrorKind::Failed,
        };
        refusal(kind, error.to_string())
    })
}

/// Returns the refusal of a handoff or of its cancellation.
fn not_handed_over(refused: handoff::Refused) -> Refusal {
    Box::new(refused.into())
}

fn handed_over(row: &HandoffRow) -> ControlReply {
    ControlReply::Handoff { handoff: Box::new(handoff::info(row)) }
}

/// Returns the reason why a delivery cannot be retried.
fn nothing_to_retry(delivery: i64, state: DeliveryState) -> String {
    match state {
        DeliveryState::Drafting => {
            format!("delivery {delivery} is still being written by its turn, so there is nothing to retry")
        }
        DeliveryState::Owed => {
            format!("delivery {delivery} is already being retried; `outbox show {delivery}` shows the next attempt")
        }
        DeliveryState::Settled | DeliveryState::Abandoned => {
            format!("delivery {delivery} was delivered, so there is nothing to retry")
        }
    }
}

/// Returns the effect of abandoning a delivery, by its state before.
fn dropped(delivery: i64, owed: &OwedDelivery) -> String {
    if owed.state.is_live() && owed.choices.is_some() {
        format!(
            "Dropped delivery {delivery}; the turn that waits for its answer is notified that the question was not \
             asked."
        )
    } else if owed.state.is_live() {
        format!("Dropped delivery {delivery}; `outbox retry {delivery}` queues it again.")
    } else {
        format!("Delivery {delivery} had already ended; from now on it is listed only with --all.")
    }
}

pub(super) fn refused(words: impl Into<String>) -> Refusal {
    refusal(ErrorKind::Refused, words)
}

/// Returns the background command with this id or prefix.
fn meant(host: &Host, name: &str) -> Result<Option<TaskInfo>, Refusal> {
    let several = |ids: Vec<String>| {
        let words = format!("several commands begin with {name} ({}); write more characters of the id", ids.join(", "));
        refusal(ErrorKind::Invalid, words)
    };
    processes::meant(host, name).map_err(several)
}

pub(super) fn refusal(kind: ErrorKind, words: impl Into<String>) -> Refusal {
    Box::new(ControlReply::error(kind, words))
}
