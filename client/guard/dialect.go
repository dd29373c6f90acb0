package guard

import "fmt"

// Dialect is a database's way of saying things. There is no default.
type Dialect uint8

// The databases for which the statements are written and tested.
const (
	SQLite   Dialect = iota + 1 // from 3.35
	Postgres                    // PostgreSQL, from 9.5
	MySQL                       // MariaDB, from 10.3, and MySQL, from 5.7, with InnoDB tables
)

// String is the database's name.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "PostgreSQL"
	case MySQL:
		return "MySQL or MariaDB"
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

func (d Dialect) check() error {
	if d != SQLite && d != Postgres && d != MySQL {
		return fmt.Errorf("guard: %v is none of SQLite, Postgres and MySQL", d)
	}
	return nil
}

// greatest is the higher of two numbers.
func (d Dialect) greatest(a, b string) string {
	if d == SQLite {
		return "max(" + a + ", " + b + ")"
	}
	return "GREATEST(" + a + ", " + b + ")"
}

// param is the n-th parameter of a statement, from 1. Statements here name them in order and each once.
func (d Dialect) param(n int) string {
	if d == Postgres {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// identifierBytesMax is the shortest limit of the three databases.
const identifierBytesMax = 63

// checkName refuses names of tables and columns that would need quotes. qualified allows one schema before the name.
func checkName(what, name string, qualified bool) error {
	start := 0
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		switch {
		case letter, digit && i > start:
		case c == '.' && qualified && i > start:
			start, qualified = i+1, false
		default:
			return fmt.Errorf("guard: %s %q is no plain name of letters, digits and underscores", what, name)
		}
	}
	if len(name) == start || len(name)-start > identifierBytesMax || start > identifierBytesMax+1 {
		return fmt.Errorf("guard: %s %q must have 1 to %d letters, digits and underscores", what, name, identifierBytesMax)
	}
	return nil
}
