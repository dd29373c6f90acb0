package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

const (
	// exportPiece is how much is written at a time, and exportPieceTime how long the client may take for it.
	exportPiece     = 64 << 10
	exportPieceTime = 30 * time.Second
)

// exportForm writes events in one form. What it has taken may wait until flush or end.
type exportForm interface {
	contentType() string
	event(wire.AuditEvent) error
	flush() error
	end(wire.AuditTrailer) error
	failed(*wire.Problem) error
}

func newExportForm(format auditFormat, to *exportWriter) exportForm {
	if format == formatCSV {
		return &csvForm{exportWriter: to}
	}
	form := &ndjsonForm{exportWriter: to, sum: sha256.New()}
	form.lines = json.NewEncoder(&form.line)
	form.lines.SetEscapeHTML(false) // names stay readable; nobody puts this into a page
	return form
}

// exportWriter sends bytes in pieces, each of which the client must take in time: one that does not read on is not waited
// for, and one that reads on slowly is served for as long as it takes.
type exportWriter struct {
	to         io.Writer
	connection *http.ResponseController
	waiting    []byte
}

// add takes bytes to send, and sends them once there are enough.
func (w *exportWriter) add(b []byte) error {
	w.waiting = append(w.waiting, b...)
	if len(w.waiting) < exportPiece {
		return nil
	}
	return w.flush()
}

// flush sends what waits.
func (w *exportWriter) flush() error {
	for len(w.waiting) > 0 {
		n := min(len(w.waiting), exportPiece)
		if err := w.send(w.waiting[:n]); err != nil {
			return fmt.Errorf("send a piece of an export: %w", err)
		}
		w.waiting = append(w.waiting[:0], w.waiting[n:]...)
	}
	return nil
}

func (w *exportWriter) send(piece []byte) error {
	if err := w.connection.SetWriteDeadline(time.Now().Add(exportPieceTime)); err != nil {
		return err
	}
	if _, err := w.to.Write(piece); err != nil {
		return err
	}
	return w.connection.Flush()
}

// ndjsonForm writes each event as a line of JSON.
type ndjsonForm struct {
	*exportWriter
	line  bytes.Buffer
	lines *json.Encoder
	sum   hash.Hash // of every byte so far
}

func (f *ndjsonForm) contentType() string { return typeNDJSON }

func (f *ndjsonForm) event(e wire.AuditEvent) error {
	f.line.Reset()
	if err := f.lines.Encode(e); err != nil {
		return fmt.Errorf("write event %s: %w", e.Position, err)
	}
	f.sum.Write(f.line.Bytes())
	return f.add(f.line.Bytes())
}

// end writes the trailer and, last of all, the hash of everything before the hash.
func (f *ndjsonForm) end(t wire.AuditTrailer) error {
	f.line.Reset()
	f.line.WriteString(`{"trailer":`)
	if err := f.lines.Encode(t); err != nil {
		return fmt.Errorf("write the trailer: %w", err)
	}
	f.line.Truncate(f.line.Len() - 1) // the line goes on
	f.sum.Write(f.line.Bytes())
	f.line.WriteString(`,"sha256":"` + hex.EncodeToString(f.sum.Sum(nil)) + "\"}\n")
	if err := f.add(f.line.Bytes()); err != nil {
		return err
	}
	return f.flush()
}

func (f *ndjsonForm) failed(p *wire.Problem) error {
	f.line.Reset()
	if err := f.lines.Encode(wire.AuditProblemLine{Problem: p}); err != nil {
		return fmt.Errorf("write the problem: %w", err)
	}
	if err := f.add(f.line.Bytes()); err != nil {
		return err
	}
	return f.flush()
}

// csvForm writes each event as a record.
type csvForm struct {
	*exportWriter
	begun bool
	line  []byte
}

func (f *csvForm) contentType() string { return typeCSV }

// header begins the stream with the names of the columns, also when no event follows.
func (f *csvForm) header() []byte {
	f.line = f.line[:0]
	if !f.begun {
		f.begun = true
		f.line = appendCSV(f.line, csvColumns...)
	}
	return f.line
}

func (f *csvForm) event(e wire.AuditEvent) error {
	f.line = csvEvent(f.header(), e)
	return f.add(f.line)
}

func (f *csvForm) end(t wire.AuditTrailer) error {
	return f.last(csvLast, t)
}

func (f *csvForm) failed(p *wire.Problem) error {
	return f.last(csvFailed, p)
}

func (f *csvForm) last(what string, detail any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("write the last record: %w", err)
	}
	f.line = csvEnd(f.header(), what, text)
	if err := f.add(f.line); err != nil {
		return err
	}
	return f.flush()
}
