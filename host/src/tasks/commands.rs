//! Commands in the background, as the operator sees them beside tasks and ends them.

use crate::control::TaskInfo;
use crate::host::Host;
use crate::working::beginning;

/// What they are called among the kinds of tasks.
const KIND: &str = "command";

/// Those that run, the oldest first.
pub fn listed(host: &Host) -> Vec<TaskInfo> {
    let live = host.live();
    let now_ms = host.now_ms();
    let all = host.runtime.processes_of_all().into_iter().map(|one| {
        let since_ms = now_ms.saturating_sub(i64::try_from(one.left.runs_for.as_millis()).unwrap_or(i64::MAX));
        TaskInfo {
            id: one.left.id,
            kind: KIND.to_owned(),
            // What a secret begins with must not stand before the cut.
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

/// The one that is meant by its id or a unique beginning of it.
///
/// # Errors
///
/// Those that it may be.
pub fn meant(host: &Host, name: &str) -> Result<Option<TaskInfo>, Vec<String>> {
    let mut some = listed(host);
    some.retain(|one| name.len() > 1 && one.id.starts_with(name));
    match some.iter().position(|one| one.id == name) {
        Some(exact) => Ok(Some(some.swap_remove(exact))),
        None if some.len() > 1 => Err(some.into_iter().map(|one| one.id).collect()),
        None => Ok(some.pop()),
    }
}
