package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// escaped is text that may be printed as it is, because it was made visible already.
type escaped string

// quoted is somebody else's text as a cell: in quotes where one could not tell where it begins and ends.
func quoted(text string) escaped { return escaped(wire.Shown(text)) }

// table lines cells up for people. What it is given as a string is taken for somebody else's text and made visible.
// Not safe for concurrent use.
type table struct{ w *tabwriter.Writer }

// newTable begins a table. Headings are printed as they are; there may be none.
func newTable(out io.Writer, headings ...string) *table {
	t := &table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if len(headings) > 0 {
		cells := make([]any, 0, len(headings))
		for _, h := range headings {
			cells = append(cells, escaped(h))
		}
		t.row(cells...)
	}
	return t
}

// row adds a line. What it could not write is told by end.
func (t *table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		if text, safe := cell.(escaped); safe {
			fmt.Fprint(t.w, string(text))
			continue
		}
		fmt.Fprint(t.w, visible(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t.w)
}

// end writes the table.
func (t *table) end() error { return t.w.Flush() }

// printRows prints names and values.
func printRows(out io.Writer, rows [][2]string) error {
	t := newTable(out)
	for _, r := range rows {
		t.row(r[0], r[1])
	}
	return t.end()
}

// printJSON prints one document.
func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
