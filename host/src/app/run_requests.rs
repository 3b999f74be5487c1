//! Requests of processes of a run over the control socket, answered with the rights of the run's requester.

use hermes_agent::tools::ports::{Messenger, Search};

use super::App;
use super::control::{Answer, refusal, refused, stored};
use crate::engine::background::tasks;
use crate::engine::background::tasks::act::By;
use crate::engine::background::tasks::viewer;
use crate::engine::operator::tasks::{find as find_task, list as list_tasks, show as show_task};
use crate::engine::operator::{ControlReply, ControlRequest, ErrorKind, HitInfo};
use crate::engine::run_tokens::Run;

impl App {
    /// Answers a request of a run. Its right was checked before.
    pub(super) async fn answer_run(&self, run: &Run, request: ControlRequest) -> Answer {
        let context = &run.context;
        match request {
            ControlRequest::Send { target, text, file: Some(file), mirror } => {
                let folders = self.host.live().session_of(&context.source).outbound_dirs.clone();
                let from = crate::engine::attachments::lend::From::Folders(folders);
                self.send(&target, text, Some((&file, from)), mirror).await
            }
            ControlRequest::Send { target, text, .. } => {
                self.fits(&text)?;
                let to = self.lent.send(context, &target, &text).await.map_err(refused)?;
                Ok(ControlReply::done(format!("The message to {to} is queued.")))
            }
            ControlRequest::SessionSearch { query, limit } => {
                let found = self.lent.search(context, &query, limit).await;
                let hits = found.map_err(|words| refusal(ErrorKind::Failed, words))?.into_iter().map(|hit| HitInfo {
                    session: hit.session,
                    title: Some(hit.title).filter(|title| !title.is_empty()),
                    role: hit.role,
                    snippet: hit.snippet,
                    at_ms: hit.at_ms,
                });
                Ok(ControlReply::Hits { hits: hits.collect() })
            }
            ControlRequest::TaskList { limit, all } => {
                stored(list_tasks(&self.host.store, viewer(context), limit, all)).await
            }
            ControlRequest::TaskShow { task } => stored(show_task(&self.host.store, viewer(context), &task)).await,
            ControlRequest::TaskCancel { task, why } => {
                let (row, _) = find_task(&self.host.store, viewer(context), &task).await.map_err(Box::new)?;
                let key = Some(context.session_key.clone());
                let by = By { viewer: viewer(context), key, session: context.session_id.clone() };
                let row = tasks::give_up(&self.host, &by, &row.id, &why).await.map_err(refused)?;
                Ok(ControlReply::done(format!("Cancelled task {}.", row.id)))
            }
            ControlRequest::Status {} | ControlRequest::AdapterList {} => {
                let mut status = self.status().await;
                status.adapters.iter_mut().for_each(|adapter| adapter.announced.clear());
                Ok(ControlReply::Status(Box::new(status)))
            }
            // The requester of the run, an admin, enters the code.
            ControlRequest::PairingApprove { instance, code } => {
                self.approve_pairing(instance, code, context.person.clone()).await
            }
            // An admin has the same view of the remaining requests as the operator.
            other => self.answer_operator(other).await,
        }
    }
}
