-- A pairing request keeps the message for which its code was given, until its sender gets access or the code expires.
ALTER TABLE pairing_requests ADD COLUMN chat TEXT;              -- Chat as JSON: where the sender is notified
ALTER TABLE pairing_requests ADD COLUMN event_id TEXT;          -- inbox.event_id of the message
ALTER TABLE pairing_requests ADD COLUMN event TEXT;             -- Event as JSON; NULL: no message, or too long to be kept
ALTER TABLE pairing_requests ADD COLUMN approved_ms INTEGER;    -- the code worked; its sender is still to be notified
