//! All limits of the host, with unit and default.
//!
//! The name of a limit ends with its unit. The comment names the key in `plugins.toml`, if there is one; the
//! constant is the default of the key.

/// `session.queue_max`: events that may wait while a turn of their session runs.
pub const QUEUE_EVENTS_MAX: usize = 32;
/// Longest time for which a text may grow that its platform may have cut.
pub const CONTINUATION_MS_MAX: u64 = 10_000;
/// Length from which a text may have been cut, in percent of the platform's limit.
pub const CONTINUED_FROM_PERCENT: usize = 90;
/// Time in which an interrupted turn must reach a safe point before it is stopped.
pub const INTERRUPT_MS_MAX: u64 = 10_000;
/// Recoveries of one session task from an internal fault before the host restarts.
pub const LANE_HEALS_MAX: u32 = 8;
/// `session.inactivity_s`: time without output after which a turn is ended.
pub const TURN_INACTIVITY_S: u64 = 1_800;
/// `session.inactivity_warning_s`: time without output after which the chat gets a warning.
pub const TURN_INACTIVITY_WARNING_S: u64 = 900;
/// `session.heartbeat_s`: interval of progress messages during a long turn.
pub const HEARTBEAT_S: u64 = 180;
/// `session.resume_attempts_max`: attempts to resume a turn after a crash.
pub const TURN_RESUMES_MAX: u32 = 3;

/// `session.approval_timeout_s`: time that a question waits for its answer.
pub const APPROVAL_TIMEOUT_S: u64 = 300;
/// `session.handoff_timeout_s`: time limit of a handoff to a chat.
pub const HANDOFF_TIMEOUT_S: u64 = 300;
/// Handoffs that run at once; further ones wait.
pub const HANDOFFS_MAX: usize = 8;
/// Interval of the search for handoffs without a notification.
pub const HANDOFF_SWEEP_S: u64 = 30;
/// Longest wait of the requester of a handoff.
pub const HANDOFF_WAIT_MS_MAX: u64 = 300_000;
/// Validity of the code of an offered conversation.
pub const HANDOFF_CODE_S: u64 = 600;
/// Conversations that are offered at once.
pub const HANDOFF_OFFERS_MAX: usize = 16;

/// Senders whose wrong codes of one kind are counted at once.
pub const GUESSERS_MAX: usize = 1_000;

/// Open questions of one turn; further ones wait.
pub const ASKS_PER_TURN_MAX: usize = 8;
/// Options of one question.
pub const ASK_OPTIONS_MAX: usize = 10;
/// Characters of a button label.
pub const ASK_LABEL_CHARS_MAX: usize = 60;
/// Characters shown of an action or a question.
pub const ASK_TEXT_CHARS_MAX: usize = 1_500;
/// Characters of the subject that identifies a question among several.
pub const ASK_ABOUT_CHARS_MAX: usize = 60;
/// Longest text that may be a failed attempt at an answer, in characters.
pub const ASK_NEAR_CHARS_MAX: usize = 32;
/// Tolerated age of an answer in words compared to the receipt of its question. Many platforms report whole
/// seconds.
pub const ASK_CLOCK_SLACK_MS: i64 = 1_000;
/// Time after an answered approval within which another yes or no refers to it.
pub const ASK_ECHO_MS: i64 = 10_000;
/// Longest wait that the host keeps on demand of a platform; then it asks the platform again.
pub const WAIT_TOLD_MS_MAX: i64 = 15 * 60 * 1_000;
/// Waits of one part that delay its whole chat; after that the part is retried alone.
pub const TOLD_WAITS_MAX: u32 = 8;
/// Responses to ineffective button presses in one chat within [`NOTICE_INTERVAL_MS`].
pub const ASK_PRESSES_HEEDED_MAX: u32 = 5;
/// Stored characters of the reason of a denial.
pub const DENIAL_CHARS_MAX: usize = 280;
/// Open questions of commands.
pub const COMMAND_ASKS_MAX: usize = 256;
/// Closed questions that are remembered.
pub const ASKS_REMEMBERED_MAX: usize = 256;
/// People who are notified that one question is not theirs.
pub const ASK_TOLD_MAX: usize = 32;
/// Kinds of action approved for one conversation, or for all.
pub const APPROVED_KINDS_MAX: usize = 64;
/// Bytes of the kind of an action.
pub const APPROVAL_KIND_BYTES_MAX: usize = 128;
/// Admins whose direct chats are remembered.
pub const STAFF_CHATS_MAX: usize = 256;

/// `delivery.reply_deadline_s`: time for which a reply is tried.
pub const REPLY_DEADLINE_S: u64 = 86_400;
/// `delivery.notice_deadline_s`: time for which a notice or a question is tried.
pub const NOTICE_DEADLINE_S: u64 = 600;
/// `delivery.backoff_ms`, `host.adapter_backoff_ms`: first wait before a retry.
pub const BACKOFF_BASE_MS: u64 = 1_000;
/// `delivery.backoff_s_max`, `host.adapter_backoff_s_max`: longest wait before a retry.
pub const BACKOFF_MS_MAX: u64 = 300_000;
/// Longest wait after a refused connection or a missing route or name. A retry costs little in that case.
pub const UNREACHABLE_BACKOFF_MS_MAX: u64 = 15_000;
/// `delivery.hold_s`: time for which a failing part blocks the parts behind it.
pub const LANE_HOLD_S: u64 = 60;
/// `delivery.preview_interval_ms`: shortest time between two edits of a growing answer.
pub const PREVIEW_INTERVAL_MS: u64 = 800;
/// `delivery.preview_chars`: new characters that trigger such an edit.
pub const PREVIEW_CHARS: usize = 24;
/// Crashes of the instance, with one part alone in flight, after which the part is abandoned.
pub const DEATHS_PER_PART_MAX: u32 = 2;
/// Marked repeats of one part if the host or the adapter process ended during each attempt.
pub const MARKED_REPEATS_MAX: u32 = 5;
/// Chats and instances in a penalty clock.
pub const PENALTIES_MAX: usize = 4_096;
/// Characters of a marker of silence.
pub const SILENCE_CHARS_MAX: usize = 64;

/// `host.drain_s`: time that a planned stop waits for running turns.
pub const DRAIN_S: u64 = 30;
/// `host.adapter_connect_s`: time limit for the connection of an adapter.
pub const ADAPTER_CONNECT_S: u64 = 60;
/// `host.adapter_send_s`: time limit of `send` and `edit`.
pub const ADAPTER_SEND_S: u64 = 60;
/// `host.adapter_call_s`: time limit of all other adapter calls.
pub const ADAPTER_CALL_S: u64 = 10;
/// `host.adapter_stop_s`: time limit for the end of an adapter; after that it counts as stuck.
pub const ADAPTER_STOP_S: u64 = 10;
/// `limits.host_calls_max`: concurrent calls of one adapter into the host.
pub const HOST_CALLS_IN_FLIGHT_MAX: usize = 64;
/// `limits.event_bytes_max`: size of an event from an adapter.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// `limits.file_bytes_max`: size of an incoming or outgoing file.
pub const FILE_BYTES_MAX: u64 = 100 << 20;
/// `limits.reply_bytes_max`: size of an agent's reply; the rest is cut.
pub const REPLY_BYTES_MAX: usize = 1 << 20;
/// Size of a value that an adapter stores under one key.
pub const KV_VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of keys and values that one instance may keep.
pub const KV_BYTES_MAX: u64 = 64 << 20;
/// Bytes of keys and values that one instance writes at once before it has to wait.
pub const KV_BURST_BYTES: u32 = 4 << 20;
/// Bytes of keys and values that one instance writes per second after that.
pub const KV_BYTES_PER_S: u32 = 1 << 20;
/// Size of a frame between the host and an adapter process.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// `limits.turns_max`: concurrent turns.
pub const TURNS_MAX: usize = 256;
/// `limits.background_max`: background turns of one person.
pub const BACKGROUND_MAX: usize = 4;
/// `limits.ingress_queue_max`: events that wait for the dispatcher.
pub const INGRESS_QUEUE_MAX: usize = 1_024;
/// `limits.stranger_events_max`: stored events of unknown senders per instance.
pub const STRANGER_EVENTS_MAX: usize = 1_000;
/// Events of unknown senders that one instance stores at once, of up to 16 KiB each; a larger one counts several times.
pub const STRANGER_BURST_EVENTS: u32 = 64;
/// Events of unknown senders that one instance stores per second after that.
pub const STRANGER_EVENTS_PER_S: u32 = 1;
/// `limits.retention_days`: retention of settled rows.
pub const RETENTION_DAYS: u64 = 30;
/// `limits.media_retention_s`: retention of media after its last unsettled row.
pub const MEDIA_RETENTION_S: u64 = 86_400;

/// `limits.pairing_code_s`: validity of a pairing code.
pub const PAIRING_CODE_S: u64 = 3_600;
/// `limits.pairing_interval_s`: time until one person gets the next code.
pub const PAIRING_INTERVAL_S: u64 = 600;
/// `limits.pairing_open_max`: open requests of unknown senders per instance.
pub const PAIRING_OPEN_MAX: usize = 3;
/// Open invitations per instance. Only admins create them.
pub const PAIRING_INVITATIONS_MAX: usize = 20;
/// `limits.pairing_wrong_max`: wrong codes that lock out their sender.
pub const PAIRING_WRONG_MAX: u32 = 5;
/// `limits.pairing_lockout_s`: duration of that lock.
pub const PAIRING_LOCKOUT_S: u64 = 3_600;
/// Further replies to a person who has an open code.
pub const PAIRING_REMINDERS_MAX: u32 = 1;
/// Closed codes that are remembered, so that entering one does not count as a guess.
pub const PAIRING_OVER_MAX: usize = 64;

/// Bytes of a model name.
pub const MODEL_NAME_BYTES_MAX: usize = 128;

/// Time without messages after which bots are answered again.
pub const BOT_SILENCE_MS: i64 = 3_600_000;
/// Interval in which notices about rate limits and closed questions are limited.
pub const NOTICE_INTERVAL_MS: i64 = 60_000;
/// People, sessions and instances with a message counter.
pub const RATES_MAX: usize = 4_096;

/// Longest command name after the slash, in bytes.
pub const COMMAND_NAME_BYTES_MAX: usize = 32;
/// Fewest letters of an abbreviated command.
pub const COMMAND_PREFIX_CHARS_MIN: usize = 3;

const _: () = {
    assert!(TURN_INACTIVITY_WARNING_S < TURN_INACTIVITY_S);
    assert!(BACKOFF_BASE_MS <= BACKOFF_MS_MAX);
    assert!(NOTICE_DEADLINE_S <= REPLY_DEADLINE_S);
};
