package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"

	"github.com/pressly/goose/v3"

	"github.com/stanchion-locks/stanchion/migrations"
)

// migrate applies what the file does not have yet, each migration in a transaction of its own, and holds what it has
// against the hashes recorded when it got it.
func migrate(ctx context.Context, pool *sql.DB) error {
	return migrateFrom(ctx, pool, migrations.Files)
}

func migrateFrom(ctx context.Context, pool *sql.DB, files fs.FS) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	for _, source := range provider.ListSources() {
		text, err := fs.ReadFile(files, source.Path)
		if err != nil {
			return fmt.Errorf("read migration %s: %w", source.Path, err)
		}
		if err := recordMigration(ctx, pool, source.Version, path.Base(source.Path), text); err != nil {
			return err
		}
	}
	return nil
}

// recordMigration remembers the hash of a migration just applied, or compares it.
func recordMigration(ctx context.Context, pool *sql.DB, version int64, name string, text []byte) error {
	sum := sha256.Sum256(text)
	got := hex.EncodeToString(sum[:])
	const table = `CREATE TABLE IF NOT EXISTS applied_migration (
		version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT`
	if _, err := pool.ExecContext(ctx, table); err != nil {
		return fmt.Errorf("record migrations: %w", err)
	}
	const insert = `INSERT INTO applied_migration (version, name, sha256) VALUES (?, ?, ?) ON CONFLICT (version) DO NOTHING`
	if _, err := pool.ExecContext(ctx, insert, version, name, got); err != nil {
		return fmt.Errorf("record migration %s: %w", name, err)
	}
	var recorded string
	const look = `SELECT sha256 FROM applied_migration WHERE version = ?`
	if err := pool.QueryRowContext(ctx, look, version).Scan(&recorded); err != nil {
		return fmt.Errorf("read migration %s: %w", name, err)
	}
	if recorded != got {
		return fmt.Errorf("%w: migration %s has hash %s, was applied as %s", ErrSchema, name, got, recorded)
	}
	return nil
}
