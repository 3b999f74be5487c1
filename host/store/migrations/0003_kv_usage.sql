-- Keys and bytes of each scope of kv, so that a write does not count them.
CREATE TABLE kv_usage (
    scope          TEXT    NOT NULL PRIMARY KEY,
    keys           INTEGER NOT NULL,
    bytes          INTEGER NOT NULL             -- of keys and values
) STRICT, WITHOUT ROWID;
INSERT INTO kv_usage SELECT scope, count(*), sum(octet_length(key) + octet_length(value)) FROM kv GROUP BY scope;

CREATE TRIGGER kv_inserted AFTER INSERT ON kv BEGIN
    INSERT INTO kv_usage (scope, keys, bytes)
        VALUES (new.scope, 1, octet_length(new.key) + octet_length(new.value))
        ON CONFLICT (scope) DO UPDATE SET keys = keys + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER kv_changed AFTER UPDATE OF value ON kv BEGIN
    UPDATE kv_usage SET bytes = bytes + octet_length(new.value) - octet_length(old.value) WHERE scope = new.scope;
END;
CREATE TRIGGER kv_deleted AFTER DELETE ON kv BEGIN
    UPDATE kv_usage SET keys = keys - 1, bytes = bytes - octet_length(old.key) - octet_length(old.value)
        WHERE scope = old.scope;
END;
