-- +goose Up

-- The Merkle log of each log: every hash that a proof may need, in the storage order of the tree, 64 to a row. The last row
-- of a log grows until it is full.
CREATE TABLE tree_block (
    incarnation INTEGER NOT NULL CHECK (incarnation >= 0),
    log_id      INTEGER NOT NULL CHECK (log_id >= 0),
    block       INTEGER NOT NULL CHECK (block >= 0), -- place of the first hash / 64
    hashes      BLOB    NOT NULL CHECK (length(hashes) BETWEEN 32 AND 2048 AND length(hashes) % 32 = 0),
    PRIMARY KEY (incarnation, log_id, block)
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER tree_block_is_not_deleted BEFORE DELETE ON tree_block
BEGIN
    SELECT RAISE(ABORT, 'hashes of the tree are never deleted');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER tree_block_only_grows BEFORE UPDATE ON tree_block
WHEN NEW.incarnation <> OLD.incarnation OR NEW.log_id <> OLD.log_id OR NEW.block <> OLD.block
    OR substr(NEW.hashes, 1, length(OLD.hashes)) <> OLD.hashes
BEGIN
    SELECT RAISE(ABORT, 'hashes of the tree are never changed');
END;
-- +goose StatementEnd
