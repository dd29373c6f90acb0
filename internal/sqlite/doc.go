// Package sqlite opens a node's SQLite file the one way it may be used: one writing connection, a few reading ones with
// deadlines, the pragmas that make commits durable, migrations applied, damage set aside.
//
// It is the only place that knows the driver: its codes become the errors of this package here and nowhere else. It must
// not know what the tables mean.
package sqlite
