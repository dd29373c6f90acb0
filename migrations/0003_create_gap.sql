-- +goose Up

-- Entries that this node knows it does not have. An open gap shrinks and goes as it is filled; one that was given up stays
-- for ever and is a leaf of the Merkle log.
CREATE TABLE gap (
    incarnation INTEGER NOT NULL CHECK (incarnation >= 0),
    log_id      INTEGER NOT NULL CHECK (log_id >= 0),
    from_index  INTEGER NOT NULL CHECK (from_index > 0),
    to_index    INTEGER NOT NULL,
    why         TEXT    NOT NULL,
    recorded_ms INTEGER NOT NULL, -- this node's wall time
    given_up    INTEGER NOT NULL CHECK (given_up IN (0, 1)),
    leaf        INTEGER CHECK (leaf >= 0), -- of a gap given up, once the log is numbered to here
    PRIMARY KEY (incarnation, log_id, from_index),
    CHECK (to_index >= from_index),
    CHECK (leaf IS NULL OR given_up = 1)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER gap_given_up_is_not_deleted BEFORE DELETE ON gap WHEN OLD.given_up = 1
BEGIN
    SELECT RAISE(ABORT, 'a gap given up stays for ever');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER gap_given_up_is_numbered_once BEFORE UPDATE ON gap
WHEN OLD.given_up = 1 AND (OLD.leaf IS NOT NULL OR NEW.leaf IS NULL OR NEW.given_up <> 1
    OR NEW.incarnation <> OLD.incarnation OR NEW.log_id <> OLD.log_id OR NEW.from_index <> OLD.from_index
    OR NEW.to_index <> OLD.to_index OR NEW.why <> OLD.why OR NEW.recorded_ms <> OLD.recorded_ms)
BEGIN
    SELECT RAISE(ABORT, 'a gap given up is given its number once and is not changed otherwise');
END;
-- +goose StatementEnd
