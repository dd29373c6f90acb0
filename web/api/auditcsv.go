package api

import (
	"strconv"
	"strings"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// csvColumns are the columns of an export in CSV, named as the fields of an event in JSON.
var csvColumns = []string{"position", "row", "at", "kind", "tenant", "class", "key", "request", "token", "epoch", "version", "reason",
	"api_key", "count", "unprotected", "detail", "holder", "by", "note", "erased"}

// csvLast is the first cell of the record that ends a whole export; detail has the trailer in JSON. csvFailed is that of
// the one that ends an export which could not go on.
const (
	csvLast   = "trailer"
	csvFailed = "problem"
)

// appendCSV appends a record as RFC 4180 has it. Cells keep their bytes, those that a spreadsheet would execute apart: see
// harmless.
func appendCSV(b []byte, cells ...string) []byte {
	for i, cell := range cells {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCell(b, harmless(cell))
	}
	return append(b, '\r', '\n')
}

func appendCell(b []byte, cell string) []byte {
	if !strings.ContainsAny(cell, "\",\r\n") {
		return append(b, cell...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(cell, `"`, `""`)...)
	return append(b, '"')
}

// harmless puts an apostrophe before a cell that a spreadsheet would take for a formula, which tenants could otherwise
// plant in a holder's label or a key. A cell that begins with an apostrophe gets one too: taking one away from every cell
// that begins with one gives the exact bytes back.
func harmless(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@'\t\r\n", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

func csvEvent(b []byte, e wire.AuditEvent) []byte {
	row := ""
	if e.Row != nil {
		row = strconv.FormatUint(*e.Row, 10)
	}
	return appendCSV(b, e.Position, row, e.At.String(), e.Kind, e.Tenant, e.Class, e.Key, e.Request, csvNumber(e.Token),
		csvNumber(e.Epoch), csvNumber(e.Version), e.Reason, e.APIKey, csvNumber(e.Count), csvMark(e.Unprotected), e.Detail,
		e.Holder, e.By, e.Note, csvMark(e.Erased))
}

func csvNumber(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func csvMark(set bool) string {
	if !set {
		return ""
	}
	return "true"
}

// csvEnd is a record that is no event: its first cell says what it is, detail has the rest in JSON.
func csvEnd(b []byte, what string, detail []byte) []byte {
	cells := make([]string, len(csvColumns))
	for i, column := range csvColumns {
		switch column {
		case "position":
			cells[i] = what
		case "detail":
			cells[i] = string(detail)
		}
	}
	return appendCSV(b, cells...)
}
