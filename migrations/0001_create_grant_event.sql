-- +goose Up

-- How far each log is projected.
CREATE TABLE log_position (
    incarnation    INTEGER NOT NULL CHECK (incarnation >= 0), -- which life of the cluster's data
    log_id         INTEGER NOT NULL CHECK (log_id >= 0),      -- 0 the control log, n partition n
    durable_index  INTEGER NOT NULL CHECK (durable_index >= 0),  -- every entry up to here is rows or a recorded gap
    numbered_index INTEGER NOT NULL CHECK (numbered_index >= 0), -- every row up to here has its leaf
    leaf_count     INTEGER NOT NULL CHECK (leaf_count >= 0),     -- size of the Merkle log
    PRIMARY KEY (incarnation, log_id)
) STRICT, WITHOUT ROWID;

-- What is never deleted: that there was an event, whose, and the hash of its content.
CREATE TABLE grant_event (
    incarnation  INTEGER NOT NULL CHECK (incarnation >= 0),
    log_id       INTEGER NOT NULL CHECK (log_id >= 0),
    log_index    INTEGER NOT NULL CHECK (log_index > 0),  -- position in the log
    ordinal      INTEGER NOT NULL CHECK (ordinal >= 0),   -- position within that entry, from 0
    tenant_id    TEXT    NOT NULL,                        -- empty: the platform's own
    content_hash BLOB    NOT NULL CHECK (length(content_hash) = 32), -- same position, other hash: stop and alarm
    leaf         INTEGER CHECK (leaf >= 0),               -- number in the Merkle log; null while a gap is open before it
    PRIMARY KEY (incarnation, log_id, log_index, ordinal)
) STRICT, WITHOUT ROWID;

-- What the event says. Retention deletes it, erasure empties its personal text. The set of kinds is closed in the code
-- and not here: a new kind would have the whole table written anew.
CREATE TABLE grant_body (
    tenant_id     TEXT    NOT NULL,
    incarnation   INTEGER NOT NULL,
    log_id        INTEGER NOT NULL,
    log_index     INTEGER NOT NULL,
    ordinal       INTEGER NOT NULL,
    at_ms         INTEGER NOT NULL, -- leader's wall time, milliseconds since the Unix epoch, for people
    kind          TEXT    NOT NULL CHECK (kind <> ''),
    class         TEXT    NOT NULL,
    lock_key      TEXT    NOT NULL,
    request       TEXT    NOT NULL,
    token         INTEGER NOT NULL CHECK (token >= 0),
    epoch         INTEGER NOT NULL CHECK (epoch >= 0),
    version       INTEGER NOT NULL CHECK (version >= 0),
    reason        TEXT    NOT NULL,
    api_key       TEXT    NOT NULL,
    counted       INTEGER NOT NULL CHECK (counted >= 0),
    unprotected   INTEGER NOT NULL CHECK (unprotected IN (0, 1)),
    detail        TEXT    NOT NULL,
    personal_hash BLOB    NOT NULL CHECK (length(personal_hash) = 32), -- salted hash of the four columns below
    salt          BLOB    CHECK (length(salt) = 16), -- of this row alone; null, with the texts: erased
    holder        TEXT,
    by_whom       TEXT,
    note          TEXT,
    PRIMARY KEY (tenant_id, incarnation, log_id, log_index, ordinal),
    FOREIGN KEY (incarnation, log_id, log_index, ordinal) REFERENCES grant_event (incarnation, log_id, log_index, ordinal),
    CHECK ((salt IS NULL) = (holder IS NULL) AND (salt IS NULL) = (by_whom IS NULL) AND (salt IS NULL) = (note IS NULL))
) STRICT, WITHOUT ROWID;

-- The primary key's columns follow by themselves, so that a search reads its matches in order of position.
CREATE INDEX grant_body_key ON grant_body (tenant_id, lock_key) WHERE lock_key <> '';
CREATE INDEX grant_body_token ON grant_body (tenant_id, token) WHERE token > 0;

-- When the events of 1,024 neighbouring entries happened: narrows a search by time, which follows positions only roughly.
CREATE TABLE time_block (
    incarnation INTEGER NOT NULL,
    log_id      INTEGER NOT NULL,
    block       INTEGER NOT NULL CHECK (block >= 0), -- log_index / 1024
    at_min      INTEGER NOT NULL,
    at_max      INTEGER NOT NULL CHECK (at_max >= at_min),
    PRIMARY KEY (incarnation, log_id, block)
) STRICT, WITHOUT ROWID;

-- What retention has done, and what it may do just now. A body goes only while its tenant's row is open for it.
CREATE TABLE retention (
    tenant_id TEXT    NOT NULL PRIMARY KEY,
    before_ms INTEGER NOT NULL, -- bodies of earlier events are dropped
    done_ms   INTEGER NOT NULL, -- when that was last looked after
    open_for  TEXT    NOT NULL CHECK (open_for IN ('', 'drop', 'erase')) -- not empty only within a transaction
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER grant_event_is_not_deleted BEFORE DELETE ON grant_event
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER grant_event_is_numbered_once BEFORE UPDATE ON grant_event
WHEN OLD.leaf IS NOT NULL OR NEW.leaf IS NULL OR NEW.incarnation <> OLD.incarnation OR NEW.log_id <> OLD.log_id
    OR NEW.log_index <> OLD.log_index OR NEW.ordinal <> OLD.ordinal OR NEW.tenant_id <> OLD.tenant_id
    OR NEW.content_hash <> OLD.content_hash
BEGIN
    SELECT RAISE(ABORT, 'an event is given its number once and is not changed otherwise');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER grant_body_is_dropped_by_retention BEFORE DELETE ON grant_body
WHEN NOT EXISTS (SELECT 1 FROM retention r
    WHERE r.tenant_id = OLD.tenant_id AND r.open_for = 'drop' AND OLD.at_ms < r.before_ms)
BEGIN
    SELECT RAISE(ABORT, 'only retention drops what an event says');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER grant_body_is_erased_only BEFORE UPDATE ON grant_body
WHEN NOT EXISTS (SELECT 1 FROM retention r WHERE r.tenant_id = OLD.tenant_id AND r.open_for = 'erase')
    OR NEW.salt IS NOT NULL OR NEW.tenant_id <> OLD.tenant_id OR NEW.incarnation <> OLD.incarnation
    OR NEW.log_id <> OLD.log_id OR NEW.log_index <> OLD.log_index OR NEW.ordinal <> OLD.ordinal
    OR NEW.at_ms <> OLD.at_ms OR NEW.kind <> OLD.kind OR NEW.class <> OLD.class OR NEW.lock_key <> OLD.lock_key
    OR NEW.request <> OLD.request OR NEW.token <> OLD.token OR NEW.epoch <> OLD.epoch OR NEW.version <> OLD.version
    OR NEW.reason <> OLD.reason OR NEW.api_key <> OLD.api_key OR NEW.counted <> OLD.counted
    OR NEW.unprotected <> OLD.unprotected OR NEW.detail <> OLD.detail OR NEW.personal_hash <> OLD.personal_hash
BEGIN
    SELECT RAISE(ABORT, 'what an event says is not changed; only its personal text may be erased');
END;
-- +goose StatementEnd
