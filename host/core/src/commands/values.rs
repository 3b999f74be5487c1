//! Completion values of command arguments that are known without a running host.

use super::CommandId;

/// Returns the possible first arguments of a command, for completion. Titles, numbers and names that only the
/// running host knows are not included.
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
