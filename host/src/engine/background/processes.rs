//! Background commands: the operator lists them with the tasks, and ends them.

use crate::engine::active_turns::beginning;
use crate::engine::operator::TaskInfo;
use crate::engine::runtime::Host;

/// The name of their kind among the kinds of tasks.
const KIND: &str = "command";

/// Lists the running commands, the oldest first.
pub fn listed(host: &Host) -> Vec<TaskInfo> {
    let live = host.live();
    let now_ms = host.now_ms();
    let all = host.runtime.all_processes().into_iter().map(|one| {
        let since_ms = now_ms.saturating_sub(i64::try_from(one.left.runs_for.as_millis()).unwrap_or(i64::MAX));
        TaskInfo {
            id: one.left.id,
            kind: KIND.to_owned(),
            // The text is masked before it is cut, so that no beginning of a secret remains.
            title: beginning(&live.masker.mask(one.left.command.as_str())),
            text: String::new(),
            state: "running".to_owned(),
            attempts: 0,
            said: None,
            note: None,
            owner: None,
            chat: Some(one.key),
            session: one.session.map(|session| session.0).unwrap_or_default(),
            worker: None,
            deadline_ms: None,
            created_ms: since_ms,
            changed_ms: since_ms,
        }
    });
    all.collect()
}

/// Finds a command by its id or by a unique beginning of it.
///
/// # Errors
///
/// The matching candidates.
pub fn meant(host: &Host, name: &str) -> Result<Option<TaskInfo>, Vec<String>> {
    let mut some = listed(host);
    some.retain(|one| name.len() > 1 && one.id.starts_with(name));
    match some.iter().position(|one| one.id == name) {
        Some(exact) => Ok(Some(some.swap_remove(exact))),
        None if some.len() > 1 => Err(some.into_iter().map(|one| one.id).collect()),
        None => Ok(some.pop()),
    }
}
