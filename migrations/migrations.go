// Package migrations holds the schema of a node's SQLite file as a row of files, each applied once, forward only.
//
// A file is called NNNN_verb_noun.sql, runs in one transaction and is never edited once it is released: its hash is
// recorded beside its number. The previous release must still run after it. The package knows nothing of what reads or
// writes the tables.
package migrations

import "embed"

// Files are the migrations, in the order of their names.
//
//go:embed *.sql
var Files embed.FS
