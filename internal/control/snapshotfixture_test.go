package control_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/stanchion-locks/stanchion/internal/control"
)

var errDisk = errors.New("disk")

// failing is a reader that cannot be read.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

func sortedNames(entries map[string]control.Entry) []string { return slices.Sorted(maps.Keys(entries)) }

// summed replaces the last four bytes by the checksum of what stands before them.
func summed(b []byte) []byte {
	body := slices.Clone(b[:len(b)-4])
	return binary.BigEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// sections takes a snapshot apart: after eight bytes of name and version, each section stands after its length.
func sections(t testFailer, b []byte) [][]byte {
	t.Helper()
	var parts [][]byte
	for b = b[8 : len(b)-4]; len(b) > 0; {
		size := binary.BigEndian.Uint32(b)
		parts, b = append(parts, b[4:4+size]), b[4+size:]
	}
	return parts
}

func join(parts ...[]byte) []byte {
	b := []byte("STNCTRL\x01")
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return summed(append(b, 0, 0, 0, 0))
}
