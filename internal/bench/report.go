package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one row of a result: what was measured of one load.
type Row interface {
	header() []string
	cells() []string // one for each name in the header
}

// Report is what a measurement found.
type Report[R Row] struct {
	Measure string    `json:"measure"`
	At      time.Time `json:"at"`     // when it began
	Leader  string    `json:"leader"` // the node that was asked
	Class   string    `json:"class"`
	Rows    []R       `json:"rows"`
	Notes   []string  `json:"notes"` // what a reader must know
}

func newReport[R Row](measure string, r *run) Report[R] {
	return Report[R]{Measure: measure, At: time.Now().UTC().Truncate(time.Second), Leader: r.base, Class: r.Class, Rows: []R{},
		Notes: append([]string{}, r.notes...)}
}

// Table prints the rows as a table, with the notes below.
func (r Report[R]) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var none R
	fmt.Fprintln(t, strings.Join(none.header(), "\t")+"\t")
	for _, row := range r.Rows {
		fmt.Fprintln(t, strings.Join(row.cells(), "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, note := range append([]string{"Latencies are in ms. All requests went to " + r.Leader + "."}, r.Notes...) {
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}

const notMeasured = "not measured"

func ms(us int64) string { return strconv.FormatFloat(float64(us)/1000, 'f', 2, 64) }

func number(n int) string { return strconv.Itoa(n) }

func decimal(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }

// measured is a figure that may not have been measured.
func measured(f *float64, digits int) string {
	if f == nil {
		return notMeasured
	}
	return decimal(*f, digits)
}
