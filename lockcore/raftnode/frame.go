package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

// errFrameSize means that a peer announced a frame beyond the limit.
var errFrameSize = errors.New("frame size out of range")

const frameHeaderBytes = 2

var (
	frameEncoding = must(cbor.CoreDetEncOptions().EncMode())
	frameDecoding = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxNestedLevels:   4,
		MaxArrayElements:  16,
		MaxMapPairs:       16,
	}.DecMode())
)

// must is for values built from constants at start.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// appendFrame appends v as CBOR behind its length, two bytes big-endian.
func appendFrame(buf []byte, v any, bytesMax int) ([]byte, error) {
	body, err := frameEncoding.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	if len(body) > bytesMax {
		return nil, fmt.Errorf("encode frame of %d bytes, at most %d: %w", len(body), bytesMax, errFrameSize)
	}
	return append(binary.BigEndian.AppendUint16(buf, uint16(len(body))), body...), nil
}

func writeFrame(w io.Writer, v any, bytesMax int) error {
	frame, err := appendFrame(nil, v, bytesMax)
	if err != nil {
		return err
	}
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// readFrame reads one frame into v. It reads not a byte beyond it, and allocates no more than bytesMax. A connection
// closed between frames is io.EOF.
func readFrame(r io.Reader, v any, bytesMax int) error {
	var head [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(head[:]))
	if size == 0 || size > bytesMax {
		return fmt.Errorf("read frame of %d bytes, at most %d: %w", size, bytesMax, errFrameSize)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	return decodeFrame(body, v)
}

func decodeFrame(body []byte, v any) error {
	if err := frameDecoding.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	return nil
}
