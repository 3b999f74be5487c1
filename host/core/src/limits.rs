//! Every bound of the host, with its unit and default, in one place.
//!
//! The unit is the end of the name. Where a bound has a key in `plugins.toml`,
//! its comment names it; the key's default is the value here.

/// `session.queue_max`: events that wait while a turn of their session runs.
pub const QUEUE_EVENTS_MAX: usize = 32;
/// `session.merge_ms`: how long after one text the next one of its sender still belongs to it, while a turn runs.
pub const MERGE_MS: u64 = 350;
/// `session.merge_ms_max`: how long one message may grow that way.
pub const MERGE_MS_MAX: u64 = 1_000;
/// `session.continuation_ms`: how long the continuation of a text that its platform may have cut is waited for.
pub const CONTINUATION_MS: u64 = 2_000;
/// How long such a text may grow.
pub const CONTINUATION_MS_MAX: u64 = 10_000;
/// A text of so much of its platform's limit may have been cut, in percent.
pub const CONTINUED_FROM_PERCENT: usize = 90;
/// How long a turn may take to reach a safe point after it was interrupted; then it is stopped.
pub const INTERRUPT_MS_MAX: u64 = 10_000;
/// How often one lane recovers from a fault of its own before the host restarts.
pub const LANE_HEALS_MAX: u32 = 8;
/// `session.inactivity_s`: how long a turn may be silent before it is ended.
pub const TURN_INACTIVITY_S: u64 = 1_800;
/// `session.inactivity_warning_s`: how long a turn may be silent before the chat is warned.
pub const TURN_INACTIVITY_WARNING_S: u64 = 900;
/// `session.heartbeat_s`: how often the chat hears what a long turn is doing.
pub const HEARTBEAT_S: u64 = 180;
/// `session.resume_attempts_max`: how often a turn that a crash cut off is resumed.
pub const TURN_RESUMES_MAX: u32 = 3;

/// `session.approval_timeout_s`: how long a question waits for its answer.
pub const APPROVAL_TIMEOUT_S: u64 = 300;
/// `session.handoff_timeout_s`: how long a conversation may be on its way to a chat.
pub const HANDOFF_TIMEOUT_S: u64 = 300;
/// Conversations that are on their way at once; further ones wait.
pub const HANDOFFS_MAX: usize = 8;
/// How often handoffs are looked for that nobody said a word about.
pub const HANDOFF_SWEEP_S: u64 = 30;
/// The longest time for which the requester of a handoff waits.
pub const HANDOFF_WAIT_MS_MAX: u64 = 300_000;
/// How long the code of a conversation that was offered is good.
pub const HANDOFF_CODE_S: u64 = 600;
/// Conversations that are offered at once.
pub const HANDOFF_OFFERS_MAX: usize = 16;

/// People whose wrong codes for offered conversations are counted at once.
pub const CLAIMANTS_MAX: usize = 1_000;

/// Questions of one turn that are open at once; further ones wait.
pub const ASKS_PER_TURN_MAX: usize = 8;
/// Options of one question.
pub const ASK_OPTIONS_MAX: usize = 10;
/// What stands on one button, in characters.
pub const ASK_LABEL_CHARS_MAX: usize = 60;
/// What is shown of an action or a question, in characters.
pub const ASK_TEXT_CHARS_MAX: usize = 1_500;
/// What names a question among several, in characters.
pub const ASK_ABOUT_CHARS_MAX: usize = 60;
/// A text of at most so many characters may have been meant as an answer although it is none.
pub const ASK_NEAR_CHARS_MAX: usize = 32;
/// By so much an answer in words may be older than the receipt of its question: many platforms count whole seconds.
pub const ASK_CLOCK_SLACK_MS: i64 = 1_000;
/// For so long after an approval was answered another yes or no means that one still.
pub const ASK_ECHO_MS: i64 = 10_000;
/// A wait that a platform asks for is believed for so long; one that means it says so again.
pub const WAIT_TOLD_MS_MAX: i64 = 15 * 60 * 1_000;
/// So many waits of one part are kept in full at the cost of everything else in its chat; then it is retried alone.
pub const TOLD_WAITS_MAX: u32 = 8;
/// Presses that count for nothing and are heeded in one chat within [`NOTICE_INTERVAL_MS`].
pub const ASK_PRESSES_HEEDED_MAX: u32 = 5;
/// What is kept of why something was denied, in characters.
pub const DENIAL_CHARS_MAX: usize = 280;
/// Questions of commands that are open at once.
pub const COMMAND_ASKS_MAX: usize = 256;
/// Questions that are over and still known.
pub const ASKS_REMEMBERED_MAX: usize = 256;
/// People who are told that one question is not theirs.
pub const ASK_TOLD_MAX: usize = 32;
/// Kinds of action that are approved for one conversation, or for all.
pub const APPROVED_KINDS_MAX: usize = 64;
/// The longest kind of an action, in bytes.
pub const APPROVAL_KIND_BYTES_MAX: usize = 128;
/// Admins whose direct messages are known.
pub const STAFF_CHATS_MAX: usize = 256;

/// `delivery.reply_deadline_s`: how long a reply is tried.
pub const REPLY_DEADLINE_S: u64 = 86_400;
/// `delivery.notice_deadline_s`: how long a notice or a question is tried.
pub const NOTICE_DEADLINE_S: u64 = 600;
/// `delivery.backoff_ms`, `host.adapter_backoff_ms`: the first wait before another try.
pub const BACKOFF_BASE_MS: u64 = 1_000;
/// `delivery.backoff_s_max`, `host.adapter_backoff_s_max`: the longest such wait.
pub const BACKOFF_MS_MAX: u64 = 300_000;
/// The longest wait after a connection was refused, or no route or name led to the platform: a try costs little then.
pub const UNREACHABLE_BACKOFF_MS_MAX: u64 = 15_000;
/// `delivery.hold_s`: how long a part that fails for its own sake holds up what follows it.
pub const LANE_HOLD_S: u64 = 60;
/// `delivery.preview_interval_ms`: the shortest time between two edits that show how an answer grows.
pub const PREVIEW_INTERVAL_MS: u64 = 800;
/// `delivery.preview_chars`: new characters that are worth such an edit.
pub const PREVIEW_CHARS: usize = 24;
/// After so many deaths of the instance while one part alone was in flight, the part is abandoned.
pub const DEATHS_PER_PART_MAX: u32 = 2;
/// Marked repeats of one part, where the host or the process of the adapter ended during each attempt.
pub const MARKED_REPEATS_MAX: u32 = 5;
/// Chats and instances that a penalty clock remembers at once.
pub const PENALTIES_MAX: usize = 4_096;
/// The longest text that can be a marker of silence.
pub const SILENCE_CHARS_MAX: usize = 64;

/// `host.drain_s`: how long a planned stop waits for running turns.
pub const DRAIN_S: u64 = 30;
/// `host.adapter_connect_s`: how long an adapter may take to connect.
pub const ADAPTER_CONNECT_S: u64 = 60;
/// `host.adapter_send_s`: how long `send` and `edit` may take.
pub const ADAPTER_SEND_S: u64 = 60;
/// `host.adapter_call_s`: how long any other call of an adapter may take.
pub const ADAPTER_CALL_S: u64 = 10;
/// How long `create` of an adapter may take.
pub const ADAPTER_CREATE_MS: u64 = 1_000;
/// `host.adapter_stop_s`: how long an adapter may take to end before it counts as stuck.
pub const ADAPTER_STOP_S: u64 = 10;
/// `limits.host_calls_max`: calls of one adapter into the host that run at once.
pub const HOST_CALLS_IN_FLIGHT_MAX: usize = 64;
/// `limits.event_bytes_max`: the largest event an adapter may hand in.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// `limits.file_bytes_max`: the largest file that is taken in or sent.
pub const FILE_BYTES_MAX: u64 = 100 << 20;
/// `limits.reply_bytes_max`: the longest reply of an agent; the rest is cut.
pub const REPLY_BYTES_MAX: usize = 1 << 20;
/// The largest value an adapter may keep under one key.
pub const KV_VALUE_BYTES_MAX: usize = 64 << 10;
/// The largest frame between the host and the process of an adapter.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// `limits.turns_max`: turns that run side by side.
pub const TURNS_MAX: usize = 256;
/// `limits.background_max`: turns in the background that one person may have.
pub const BACKGROUND_MAX: usize = 4;
/// `limits.ingress_queue_max`: events that wait for the dispatcher.
pub const INGRESS_QUEUE_MAX: usize = 1_024;
/// `limits.stranger_events_max`: events of strangers that one instance may leave behind.
pub const STRANGER_EVENTS_MAX: usize = 1_000;
/// `limits.retention_days`: how long settled rows are kept.
pub const RETENTION_DAYS: u64 = 30;
/// `limits.media_retention_s`: how long media is kept after its last unsettled row.
pub const MEDIA_RETENTION_S: u64 = 86_400;

/// `limits.pairing_code_s`: how long a pairing code is good.
pub const PAIRING_CODE_S: u64 = 3_600;
/// `limits.pairing_interval_s`: how long one person waits for the next code.
pub const PAIRING_INTERVAL_S: u64 = 600;
/// `limits.pairing_open_max`: codes that are open per instance.
pub const PAIRING_OPEN_MAX: usize = 3;
/// `limits.pairing_wrong_max`: wrong codes that lock an instance.
pub const PAIRING_WRONG_MAX: u32 = 5;
/// `limits.pairing_lockout_s`: how long it stays locked.
pub const PAIRING_LOCKOUT_S: u64 = 3_600;
/// Further replies to somebody whose code is open.
pub const PAIRING_REMINDERS_MAX: u32 = 1;
/// Codes that were open and are remembered, so that entering one is not taken for a guess.
pub const PAIRING_OVER_MAX: usize = 64;

/// The longest name of a model, in bytes.
pub const MODEL_NAME_BYTES_MAX: usize = 128;

/// `limits.bot_messages_max`: messages of bots in one chat that are answered while no person speaks there.
pub const BOT_MESSAGES_MAX: u32 = 10;
/// After so long without a word bots are answered again.
pub const BOT_SILENCE_MS: i64 = 3_600_000;
/// Whoever writes too much, or presses what is over, is told so only so often in this time.
pub const NOTICE_INTERVAL_MS: i64 = 60_000;
/// People, sessions and instances whose messages are counted at once.
pub const RATES_MAX: usize = 4_096;

/// The longest word after a slash that can be a command, in bytes.
pub const COMMAND_NAME_BYTES_MAX: usize = 32;
/// The fewest letters of a command that stand for the whole.
pub const COMMAND_PREFIX_CHARS_MIN: usize = 3;

const _: () = {
    assert!(TURN_INACTIVITY_WARNING_S < TURN_INACTIVITY_S);
    assert!(BACKOFF_BASE_MS <= BACKOFF_MS_MAX);
    assert!(NOTICE_DEADLINE_S <= REPLY_DEADLINE_S);
};
