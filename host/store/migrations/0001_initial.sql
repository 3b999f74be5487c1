-- The tables of hermes-host. Times are milliseconds since the Unix epoch; states are the stable words of
-- host/src/store/words.rs. Every change of a state names the state it starts from, so no trigger guards them.
--
-- A list of words is written as OR, because SQLite makes a table in memory for an IN of more than two, at each
-- insert; that would cost more than the insert.
--
-- Foreign keys are named in comments only: each is written in the same transaction as the row it names, and a
-- check on every insert would cost more than the insert.
--
-- Live rows are found through partial indexes, which stay as small as the work in hand.

-- Bookkeeping of the file itself. One row.
CREATE TABLE host (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    epoch          INTEGER NOT NULL,            -- lives of a writer so far
    clean_shutdown INTEGER NOT NULL CHECK (clean_shutdown IN (0, 1)),
    nonce          TEXT    NOT NULL,            -- makes idempotency keys of two databases differ
    indexed_upto   INTEGER NOT NULL,            -- the last message that the search indexes hold
    opened_ms      INTEGER NOT NULL
) STRICT;
INSERT INTO host VALUES (1, 0, 1, lower(hex(randomblob(4))), 0, 0);

CREATE TABLE sessions (
    id             TEXT PRIMARY KEY,            -- YYYYMMDD_HHMMSS_<8 hex>
    profile        TEXT    NOT NULL,
    title          TEXT,
    source         TEXT    NOT NULL,            -- instance it began on
    owner          TEXT,                        -- <instance>:<user>
    settings       TEXT,                        -- SessionSettings as JSON; null: nothing was chosen
    parent         TEXT,                        -- sessions.id
    lineage        TEXT CHECK (lineage = 'reset' OR lineage = 'branch' OR lineage = 'compression'
        OR lineage = 'aside'),
    started_ms     INTEGER NOT NULL,
    active_ms      INTEGER NOT NULL,            -- end of its last turn
    ended_ms       INTEGER,
    end_reason     TEXT,
    messages       INTEGER NOT NULL DEFAULT 0,  -- active ones
    turns          INTEGER NOT NULL DEFAULT 0,
    woken          INTEGER NOT NULL DEFAULT 0,  -- turns in a row to which it was woken, up to now
    tool_calls     INTEGER NOT NULL DEFAULT 0,
    api_calls      INTEGER NOT NULL DEFAULT 0,
    input_tokens   INTEGER NOT NULL DEFAULT 0,
    output_tokens  INTEGER NOT NULL DEFAULT 0,
    summary        TEXT,                        -- of what a compression left in its parent
    handoff_state  TEXT NOT NULL DEFAULT 'none'
        CHECK (handoff_state = 'none' OR handoff_state = 'pending' OR handoff_state = 'running'
            OR handoff_state = 'completed' OR handoff_state = 'failed'),
    handoff_target TEXT,                        -- instance asked for
    handoff_error  TEXT,
    handoff_epoch  INTEGER,                     -- the epoch that claimed it
    handoff_attempts INTEGER NOT NULL DEFAULT 0,
    handoff_chat   TEXT,                        -- Chat as JSON, kept over a second claim
    handoff_prev_session TEXT,                  -- what the chat's route led to before
    handoff_routes TEXT,                        -- HandoffRoutes as JSON: how to lead the chats back
    handoff_inbox  INTEGER,                     -- inbox.id of the event that opens it in the chat
    handoff_outbox INTEGER,                     -- what is owed for that event lies behind this outbox.id
    handoff_asked_ms INTEGER,
    handoff_at_ms  INTEGER,                     -- when it came into its state
    CHECK ((parent IS NULL) = (lineage IS NULL)),
    CHECK ((ended_ms IS NULL) = (end_reason IS NULL))
) STRICT;
CREATE UNIQUE INDEX sessions_title ON sessions (profile, COALESCE(owner, ''), title COLLATE NOCASE) WHERE title IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_handoff ON sessions (handoff_at_ms) WHERE handoff_state IN ('pending', 'running');
CREATE INDEX sessions_handed ON sessions (handoff_target) WHERE handoff_state = 'completed';

CREATE TABLE routes (
    key            TEXT PRIMARY KEY,            -- SessionKey::stored(): compared, never parsed
    profile        TEXT    NOT NULL,
    instance       TEXT    NOT NULL,
    session_id     TEXT    NOT NULL,            -- sessions.id
    origin         TEXT    NOT NULL,            -- Chat as JSON
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL,
    shared         INTEGER NOT NULL CHECK (shared IN (0, 1)),
    participates   INTEGER NOT NULL CHECK (participates IN (0, 1)),
    completes      INTEGER NOT NULL CHECK (completes IN (0, 1)),   -- its session ends with its turn: nothing more comes
    suspended      INTEGER NOT NULL CHECK (suspended IN (0, 1)),
    resume_pending INTEGER NOT NULL CHECK (resume_pending IN (0, 1)),
    resume_reason  TEXT,
    resume_count   INTEGER NOT NULL,
    overrides      TEXT                         -- JSON object
) STRICT, WITHOUT ROWID;
CREATE INDEX routes_session ON routes (session_id);

-- AUTOINCREMENT: a deleted session must not lend a message's id, which the search indexes hold, to another.
CREATE TABLE messages (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id     TEXT    NOT NULL,            -- sessions.id
    turn_id        INTEGER,                     -- turns.id
    role           TEXT    NOT NULL CHECK (role = 'system' OR role = 'user' OR role = 'assistant' OR role = 'tool'),
    content        TEXT    NOT NULL,
    reasoning      TEXT,
    tool_calls     TEXT,                        -- JSON array
    tool_call_id   TEXT,
    attachments    TEXT,                        -- JSON array
    platform_ids   TEXT,                        -- JSON array
    at_ms          INTEGER NOT NULL,
    active         INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    compacted      INTEGER NOT NULL DEFAULT 0 CHECK (compacted IN (0, 1)),
    undone         INTEGER,                     -- which undo of its session took it away, from 1
    CHECK (undone IS NULL OR active = 0)
) STRICT;
CREATE INDEX messages_session ON messages (session_id);

-- Search. The indexes are filled behind the hot path, up to host.indexed_upto, by the sweep and before each search.
CREATE VIRTUAL TABLE messages_words USING fts5 (
    content, content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE messages_trigrams USING fts5 (
    content, content = 'messages', content_rowid = 'id', tokenize = 'trigram'
);

CREATE TABLE inbox (
    id             INTEGER PRIMARY KEY,
    instance       TEXT    NOT NULL,
    event_id       TEXT    NOT NULL,            -- the platform's name of the change
    at_ms          INTEGER NOT NULL,
    received_ms    INTEGER NOT NULL,
    event          TEXT,                        -- Event as JSON; gone at once when dropped
    input          TEXT,                        -- JSON array of Messages: what its turn hears instead of the event
    wakes          TEXT,                        -- sessions.id: the host itself says it, to that session
    state          TEXT    NOT NULL
        CHECK (state = 'accepted' OR state = 'turned' OR state = 'answered' OR state = 'dropped'),
    why            TEXT,
    stray          INTEGER NOT NULL DEFAULT 0 CHECK (stray IN (0, 1)),   -- not admitted or not addressed
    edited         INTEGER NOT NULL DEFAULT 0 CHECK (edited IN (0, 1)),  -- whoever said it changed it while it waited
    UNIQUE (instance, event_id),
    CHECK ((state = 'dropped') = (why IS NOT NULL))
) STRICT;
CREATE INDEX inbox_accepted ON inbox (id) WHERE state = 'accepted';
CREATE INDEX inbox_stray ON inbox (instance, id) WHERE stray = 1;

CREATE TABLE turns (
    id             INTEGER PRIMARY KEY,
    session_id     TEXT    NOT NULL,            -- sessions.id
    inbox          TEXT    NOT NULL,            -- inbox.id, in order, separated by commas
    state          TEXT    NOT NULL
        CHECK (state = 'queued' OR state = 'running' OR state = 'finished' OR state = 'interrupted'
            OR state = 'failed'),
    epoch          INTEGER,                     -- the life of the host that runs it
    attempts       INTEGER NOT NULL,
    started_ms     INTEGER NOT NULL,
    ended_ms       INTEGER,
    error          TEXT,
    tool_calls     INTEGER NOT NULL DEFAULT 0,
    api_calls      INTEGER NOT NULL DEFAULT 0,
    input_tokens   INTEGER NOT NULL DEFAULT 0,
    output_tokens  INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'running') = (epoch IS NOT NULL))
) STRICT;
-- At most one turn runs per session: the invariant as a constraint.
CREATE UNIQUE INDEX turns_running ON turns (session_id) WHERE state = 'running';
CREATE INDEX turns_queued ON turns (session_id) WHERE state = 'queued';

-- Calls of tools. Each is written before it starts; one without a result never runs again.
CREATE TABLE tool_calls (
    turn_id        INTEGER NOT NULL,            -- turns.id
    n              INTEGER NOT NULL CHECK (n >= 0),   -- in order within the turn
    step           INTEGER NOT NULL,            -- which answer of the model asked for it
    said           TEXT    NOT NULL,            -- what that answer said
    call_id        TEXT    NOT NULL,            -- the model's name of it
    tool           TEXT    NOT NULL,
    arguments      TEXT    NOT NULL,            -- as the model wrote them
    result         TEXT,                        -- null: it runs, or nobody knows what came of it
    started_ms     INTEGER NOT NULL,
    ended_ms       INTEGER,
    PRIMARY KEY (turn_id, n),
    CHECK ((result IS NULL) = (ended_ms IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    id             INTEGER PRIMARY KEY,
    instance       TEXT    NOT NULL,
    chat           TEXT    NOT NULL,            -- Chat as JSON
    session_id     TEXT,                        -- sessions.id
    turn_id        INTEGER,                     -- turns.id
    in_reply_to    INTEGER,                     -- inbox.id
    reply_to       TEXT,                        -- the platform's message
    purpose        TEXT    NOT NULL,
    markdown       TEXT    NOT NULL,
    choices        TEXT,                        -- JSON
    code           TEXT,                        -- pairing_requests.hash of the code it tells; only memory has that
    asking         INTEGER NOT NULL CHECK (asking IN (0, 1)),   -- its choices wait for an answer
    outcome        TEXT,                        -- what became of its question, in words
    ephemeral_to   TEXT,
    silent         INTEGER NOT NULL CHECK (silent IN (0, 1)),
    state          TEXT    NOT NULL
        CHECK (state = 'drafting' OR state = 'owed' OR state = 'settled' OR state = 'abandoned'),
    why            TEXT,                        -- the first refusal or abandonment of a part
    draft_message  TEXT,                        -- what a draft has become on the platform, or the message it changes
    open_parts     INTEGER NOT NULL CHECK (open_parts >= 0),
    deadline_ms    INTEGER NOT NULL,
    max_attempts   INTEGER,
    created_ms     INTEGER NOT NULL,
    settled_ms     INTEGER,
    dismissed      INTEGER NOT NULL DEFAULT 0 CHECK (dismissed IN (0, 1)),   -- no longer listed as a dead letter
    CHECK (state <> 'abandoned' OR why IS NOT NULL),
    CHECK (asking = 0 OR outcome IS NULL)
) STRICT;
CREATE INDEX outbox_live ON outbox (id) WHERE state IN ('drafting', 'owed');
CREATE INDEX outbox_asking ON outbox (id) WHERE asking = 1;
CREATE INDEX outbox_asks ON outbox (choices ->> '$.ask') WHERE choices IS NOT NULL;
CREATE INDEX outbox_drafting ON outbox (turn_id) WHERE state = 'drafting';
CREATE INDEX outbox_dead ON outbox (id) WHERE why IS NOT NULL AND dismissed = 0;

CREATE TABLE outbox_parts (
    delivery       INTEGER NOT NULL,            -- outbox.id
    n              INTEGER NOT NULL CHECK (n >= 0),   -- 0: the first piece of a message that grows
    text           TEXT    NOT NULL,
    format         TEXT    NOT NULL,
    source         TEXT,                        -- where it differs from text
    media          TEXT,                        -- JSON array
    key            TEXT    NOT NULL,            -- idempotency key
    state          TEXT    NOT NULL
        CHECK (state = 'owed' OR state = 'in_flight' OR state = 'delivered' OR state = 'refused'
            OR state = 'unknown' OR state = 'deferred' OR state = 'abandoned'),
    epoch          INTEGER,                     -- the life of the host that sends it
    attempts       INTEGER NOT NULL DEFAULT 0,
    facts          TEXT,                        -- PartFacts as JSON, where it knows more than the attempts
    not_before_ms  INTEGER NOT NULL DEFAULT 0,
    receipt        TEXT,                        -- Receipt as JSON
    refusal        TEXT,                        -- kind of refusal
    detail         TEXT,                        -- the platform's words, or why it was given up
    PRIMARY KEY (delivery, n),
    CHECK ((state = 'in_flight') = (epoch IS NOT NULL)),
    CHECK (state <> 'delivered' OR receipt IS NOT NULL),
    CHECK (state <> 'refused' OR refusal IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_state (
    session_id     TEXT    NOT NULL,            -- sessions.id
    runtime        TEXT    NOT NULL,
    state          TEXT    NOT NULL,            -- JSON
    updated_ms     INTEGER NOT NULL,
    PRIMARY KEY (session_id, runtime)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachments (
    id             INTEGER PRIMARY KEY,
    session_id     TEXT    NOT NULL,            -- sessions.id
    message_id     INTEGER,                     -- messages.id
    turn_id        INTEGER,                     -- turns.id
    kind           TEXT    NOT NULL CHECK (kind IN ('media', 'observation')),
    path           TEXT,
    body           TEXT,                        -- JSON; observations are never rendered to users
    created_ms     INTEGER NOT NULL
) STRICT;
CREATE INDEX attachments_session ON attachments (session_id);

CREATE TABLE home_channels (
    instance       TEXT PRIMARY KEY,
    chat           TEXT    NOT NULL,            -- Chat as JSON
    set_by         TEXT    NOT NULL,
    set_ms         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_targets (
    instance       TEXT    NOT NULL,
    chat_type      TEXT    NOT NULL,
    chat_id        TEXT    NOT NULL,
    thread         TEXT    NOT NULL,            -- '' for the chat itself
    chat           TEXT    NOT NULL,            -- Chat as JSON
    why            TEXT    NOT NULL,
    since_ms       INTEGER NOT NULL,
    PRIMARY KEY (instance, chat_type, chat_id, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE chat_directory (
    instance       TEXT    NOT NULL,
    chat_type      TEXT    NOT NULL,
    chat_id        TEXT    NOT NULL,
    thread         TEXT    NOT NULL,            -- '' for the chat itself
    name           TEXT    NOT NULL COLLATE NOCASE,
    chat           TEXT    NOT NULL,            -- Chat as JSON
    seen_ms        INTEGER NOT NULL,
    PRIMARY KEY (instance, chat_type, chat_id, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
    instance       TEXT    NOT NULL,
    user           TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    granted_by     TEXT    NOT NULL,
    at_ms          INTEGER NOT NULL,
    PRIMARY KEY (instance, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE pairing_requests (
    instance       TEXT    NOT NULL,
    user           TEXT    NOT NULL,            -- '' for a code that an admin handed out
    name           TEXT    NOT NULL,
    salt           TEXT    NOT NULL,
    hash           TEXT    NOT NULL,            -- the code itself is nowhere
    made_ms        INTEGER NOT NULL,
    reminders      INTEGER NOT NULL,
    PRIMARY KEY (instance, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE pairing_lockouts (
    instance       TEXT PRIMARY KEY,
    wrong          INTEGER NOT NULL,
    until_ms       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Conversations that the terminal offered to whoever sends their code.
CREATE TABLE handoff_offers (
    session_id     TEXT PRIMARY KEY,            -- sessions.id
    salt           TEXT    NOT NULL,
    hash           TEXT    NOT NULL,            -- the code itself is nowhere
    made_ms        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What `adapter enable|disable` said last.
CREATE TABLE adapters (
    instance       TEXT PRIMARY KEY,
    enabled        INTEGER NOT NULL CHECK (enabled IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE cron_jobs (
    id             TEXT PRIMARY KEY,
    profile        TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    schedule       TEXT    NOT NULL,
    zone           TEXT    NOT NULL,            -- IANA name
    prompt         TEXT    NOT NULL,
    script         TEXT,
    target         TEXT,
    options        TEXT,                        -- JSON object
    session_id     TEXT,                        -- sessions.id
    created_by     TEXT    NOT NULL,
    created_ms     INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'done'),
    next_ms        INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE cron_fires (
    job            TEXT    NOT NULL,            -- cron_jobs.id
    scheduled_ms   INTEGER NOT NULL,            -- UTC
    state          TEXT    NOT NULL
        CHECK (state = 'claimed' OR state = 'running' OR state = 'finished' OR state = 'failed'
            OR state = 'skipped'),
    epoch          INTEGER,
    lease_ms       INTEGER,
    turn_id        INTEGER,                     -- turns.id
    delivery       INTEGER,                     -- outbox.id: the state of the delivery is told there
    started_ms     INTEGER,
    ended_ms       INTEGER,
    error          TEXT,
    PRIMARY KEY (job, scheduled_ms)
) STRICT, WITHOUT ROWID;

-- Work that has a name, a state and people who are told. States and arrows: hermes_core::task.
CREATE TABLE tasks (
    id             TEXT PRIMARY KEY,            -- t and six of a-z0-9
    profile        TEXT    NOT NULL,
    kind           TEXT    NOT NULL CHECK (kind = 'task' OR kind = 'run' OR kind = 'background' OR kind = 'delegate'),
    owner          TEXT,                        -- whose it is, as sessions name it
    session_id     TEXT    NOT NULL,            -- sessions.id: the one that made it
    key            TEXT    NOT NULL,            -- the printed key of the conversation that it was made in
    title          TEXT    NOT NULL,
    body           TEXT    NOT NULL,
    state          TEXT    NOT NULL
        CHECK (state = 'ready' OR state = 'running' OR state = 'blocked' OR state = 'completed' OR state = 'gave_up'
            OR state = 'crashed' OR state = 'timed_out' OR state = 'archived'),
    epoch          INTEGER,                     -- the life of the host in which it was claimed
    attempts       INTEGER NOT NULL,            -- tries, the one that runs among them
    said           TEXT,                        -- what came of it, what it waits for, or why it will not be done
    note           TEXT,                        -- how far it is, as said last
    worker         TEXT,                        -- sessions.id: who claimed it last
    timeout_ms     INTEGER NOT NULL,            -- how long one try may go without a word
    deadline_ms    INTEGER,                     -- when that is over; null: never
    created_ms     INTEGER NOT NULL,
    changed_ms     INTEGER NOT NULL,
    CHECK ((state = 'running') = (epoch IS NOT NULL)),
    CHECK (state = 'running' OR deadline_ms IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_running ON tasks (worker) WHERE state = 'running';

-- AUTOINCREMENT: what a subscriber was told is a place in this order, which no later event may take.
CREATE TABLE task_events (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    task           TEXT    NOT NULL,            -- tasks.id
    at_ms          INTEGER NOT NULL,
    kind           TEXT    NOT NULL
        CHECK (kind = 'created' OR kind = 'claimed' OR kind = 'status' OR kind = 'blocked' OR kind = 'unblocked'
            OR kind = 'completed' OR kind = 'gave_up' OR kind = 'crashed' OR kind = 'timed_out' OR kind = 'archived'),
    body           TEXT    NOT NULL,
    by_key         TEXT                         -- printed key of the conversation whose turn did it
) STRICT;
CREATE INDEX task_events_task ON task_events (task);

CREATE TABLE subscriptions (
    task           TEXT    NOT NULL,            -- tasks.id
    profile        TEXT    NOT NULL,            -- whose adapter tells
    instance       TEXT    NOT NULL,
    chat           TEXT    NOT NULL,            -- Chat as JSON
    sender         TEXT    NOT NULL,            -- Sender as JSON: who asked there
    session_id     TEXT    NOT NULL,            -- sessions.id
    wakes          INTEGER NOT NULL CHECK (wakes IN (0, 1)),   -- it made the task
    told_upto      INTEGER NOT NULL,            -- task_events.id
    PRIMARY KEY (task, session_id)
) STRICT, WITHOUT ROWID;

-- What outlives a turn and has news for its session: commands and tasks in the background.
CREATE TABLE watches (
    id             TEXT PRIMARY KEY,
    session_id     TEXT    NOT NULL,            -- sessions.id
    instance       TEXT    NOT NULL,
    chat           TEXT    NOT NULL,            -- Chat as JSON
    sender         TEXT,                        -- who asked: Sender as JSON
    what           TEXT    NOT NULL,            -- what it is, in words
    state          TEXT    NOT NULL CHECK (state = 'running' OR state = 'told' OR state = 'known'),
    epoch          INTEGER NOT NULL,            -- the life of the host that follows it
    told           INTEGER NOT NULL DEFAULT 0,  -- how often its session was woken
    seen_upto      INTEGER NOT NULL DEFAULT 0,  -- how far that went, in the measure of what is followed
    created_ms     INTEGER NOT NULL,
    ended_ms       INTEGER,
    CHECK ((state = 'running') = (ended_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX watches_running ON watches (id) WHERE state = 'running';

CREATE TABLE kv (
    scope          TEXT    NOT NULL,            -- an instance, or 'host'
    key            TEXT    NOT NULL,
    value          TEXT    NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
