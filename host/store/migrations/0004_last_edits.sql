-- The last edit of each recent message, for a message that arrives after its edit and for an edit that arrives after a
-- later one. Removed after ten minutes.
CREATE TABLE last_edits (
    instance       TEXT    NOT NULL,
    message_id     TEXT    NOT NULL,
    chat           TEXT    NOT NULL,            -- Chat.id
    sender         TEXT    NOT NULL,            -- Sender.id
    at_ms          INTEGER NOT NULL,
    received_ms    INTEGER NOT NULL,
    event          TEXT    NOT NULL,            -- Event as JSON, without raw
    PRIMARY KEY (instance, message_id, chat, sender)
) STRICT, WITHOUT ROWID;
