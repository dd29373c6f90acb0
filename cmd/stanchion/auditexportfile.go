package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// exportLineMax bounds a line of an export. The longest are events with long texts, and trailers with many logs and gaps.
const exportLineMax = 4 << 20

var (
	errNoTrailer    = errors.New("it has no trailer, so it was cut off")
	errExportHash   = errors.New("its bytes are not those that were exported: its own SHA-256 differs")
	errExportCount  = errors.New("its trailer counts other events than there are")
	errAfterTrailer = errors.New("something follows the trailer")
)

var (
	trailerBegin = []byte(`{"trailer":`)
	problemBegin = []byte(`{"problem":`)
	hashBegin    = []byte(`,"sha256":"`)
)

// readExport reads an export from its first line to its last, hands each event to each, unless that is nil, with the number
// of its line, and gives the trailer. An export that is damaged or not whole is an error, also after events were handed over.
func readExport(file string, each func(line int, e wire.AuditEvent) error) (wire.AuditTrailer, error) {
	f, err := os.Open(file)
	if err != nil {
		return wire.AuditTrailer{}, err
	}
	defer f.Close()
	r := exportReader{in: bufio.NewReaderSize(f, 64<<10), sum: sha256.New()}
	for {
		line, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return wire.AuditTrailer{}, errNoTrailer
		case err != nil:
			return wire.AuditTrailer{}, err
		case bytes.HasPrefix(line, trailerBegin):
			return r.trailer(line)
		case bytes.HasPrefix(line, problemBegin):
			return wire.AuditTrailer{}, exportProblem(line)
		}
		r.sum.Write(line)
		r.events++
		if each == nil {
			continue
		}
		var e wire.AuditEvent
		if err := strict(line, &e); err != nil {
			return wire.AuditTrailer{}, fmt.Errorf("line %d is no event: %w", r.line, err)
		}
		if err := each(r.line, e); err != nil {
			return wire.AuditTrailer{}, err
		}
	}
}

// exportReader reads lines and hashes what they say.
type exportReader struct {
	in     *bufio.Reader
	sum    hash.Hash // of the events' lines
	line   int       // number of the last line read
	events uint64
}

// next is the next line with its end, which is good until the one after it is read. A last line without an end is none.
func (r *exportReader) next() ([]byte, error) {
	var long []byte
	r.line++
	for {
		piece, err := r.in.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return piece, nil
		case len(long)+len(piece) > exportLineMax:
			return nil, fmt.Errorf("line %d is longer than any line of an export", r.line)
		case err == nil:
			return append(long, piece...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		long = append(long, piece...)
	}
}

// trailer reads the last line, and holds the file against it.
func (r *exportReader) trailer(line []byte) (wire.AuditTrailer, error) {
	var last wire.AuditTrailerLine
	line = bytes.Clone(line)
	if err := strict(line, &last); err != nil || last.Trailer == nil {
		return wire.AuditTrailer{}, fmt.Errorf("line %d is no trailer: %w", r.line, errors.Join(err, errNoTrailer))
	}
	r.sum.Write(line[:max(bytes.LastIndex(line, hashBegin), 0)])
	if hex.EncodeToString(r.sum.Sum(nil)) != last.SHA256 {
		return wire.AuditTrailer{}, errExportHash
	}
	if last.Trailer.Rows != r.events {
		return wire.AuditTrailer{}, errExportCount
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return wire.AuditTrailer{}, errAfterTrailer
	}
	return *last.Trailer, nil
}

// strict reads a line of JSON in which nothing is that it need not have.
func strict(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more on the line")
	}
	return nil
}

// exportProblem is why a node could not go on with an export.
func exportProblem(line []byte) error {
	var failed wire.AuditProblemLine
	if err := json.Unmarshal(line, &failed); err != nil || failed.Problem == nil {
		return errNoTrailer
	}
	return fmt.Errorf("the node could not go on: %w", failed.Problem)
}
