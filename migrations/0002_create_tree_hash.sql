-- +goose Up

-- The Merkle log of each log: every hash that a proof may need, by its place in the storage order of the tree.
CREATE TABLE tree_hash (
    incarnation INTEGER NOT NULL CHECK (incarnation >= 0),
    log_id      INTEGER NOT NULL CHECK (log_id >= 0),
    place       INTEGER NOT NULL CHECK (place >= 0),
    hash        BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (incarnation, log_id, place)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER tree_hash_is_not_deleted BEFORE DELETE ON tree_hash
BEGIN
    SELECT RAISE(ABORT, 'hashes of the tree are never deleted');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER tree_hash_is_not_changed BEFORE UPDATE ON tree_hash
BEGIN
    SELECT RAISE(ABORT, 'hashes of the tree are never changed');
END;
-- +goose StatementEnd
