//! Words that may stand behind a command, where the table can know them.

use super::CommandId;

/// Returns what may be written first behind a command's name, for completion. Titles,
/// numbers and names that only the running host knows are not among them.
pub fn values(id: CommandId) -> &'static [&'static str] {
    match id {
        CommandId::Busy => &["interrupt", "queue", "steer", "reset"],
        CommandId::Undo => &["redo"],
        CommandId::Model => &["reset"],
        CommandId::Personality => &["none"],
        CommandId::Reasoning => &["none", "minimal", "low", "medium", "high", "xhigh", "show", "hide", "reset"],
        CommandId::Platform => &["list", "pause", "resume"],
        CommandId::Verbose => &["off", "new", "all", "verbose", "log"],
        CommandId::Footer => &["on", "off", "status"],
        CommandId::Pair => &["approve", "list"],
        CommandId::Agents => &["stop"],
        CommandId::Sethome => &["off"],
        CommandId::Indicator => &["dots", "arrow", "none"],
        _ => &[],
    }
}
