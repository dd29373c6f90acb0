package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
)

// Bolt trusts its file: a bad page makes it panic, some of it on goroutines of its own where nobody can recover, and a
// page past the end of the file is a bus error. So the pages are read here first, without Bolt, with every bound checked.

// Layout of Bolt's format version 2. Numbers are in the machine's byte order.
const (
	boltMagic        = 0xED0CDAED
	boltVersion      = 2
	boltPageHeader   = 16 // id, flags, count, overflow
	boltElement      = 16 // of a branch or a leaf page
	boltBucketHeader = 16 // root page, sequence
	boltMetaSize     = 64 // magic … transaction id, checksum
	boltBranchFlag   = 0x01
	boltLeafFlag     = 0x02
	boltMetaFlag     = 0x04
	boltBucketFlag   = 0x01 // on a leaf element
	boltDepthMax     = 64
	boltPageSizeMin  = 512
	boltPageSizeMax  = 64 << 10
)

// errBadPage is wrapped by every finding of the page check.
var errBadPage = errors.New("bad page")

// boltMeta is what a meta page says of the file.
type boltMeta struct {
	pageSize int
	root     uint64 // root bucket's page
	pages    uint64 // first page number never used
	txid     uint64
}

// boltWalk is one pass over all reachable pages.
type boltWalk struct {
	file  io.ReaderAt
	meta  boltMeta
	seen  map[uint64]struct{}                   // pages, overflow pages included
	visit func(bucket, key, value []byte) error // called in key order for every pair outside the root bucket
}

// checkBolt reads every reachable page of the Bolt file and calls visit for each key and value in it. Both meta pages
// must be whole: Bolt itself would fall back to the older one and so forget its last acknowledged transaction.
func checkBolt(file io.ReaderAt, size int64, visit func(bucket, key, value []byte) error) error {
	meta, err := readBoltMeta(file, size)
	if err != nil {
		return err
	}
	if meta.pages > uint64(size)/uint64(meta.pageSize) {
		return fmt.Errorf("%w: the file has %d bytes and should have %d pages of %d: it was truncated", errBadPage, size, meta.pages, meta.pageSize)
	}
	w := &boltWalk{file: file, meta: meta, seen: map[uint64]struct{}{0: {}, 1: {}}, visit: visit}
	return w.page(meta.root, nil, 0)
}

func readBoltMeta(file io.ReaderAt, size int64) (boltMeta, error) {
	first, err := boltMetaAt(file, 0)
	if err != nil {
		return boltMeta{}, fmt.Errorf("meta page 0: %w", err)
	}
	if size < 2*int64(first.pageSize) {
		return boltMeta{}, fmt.Errorf("%w: the file has %d bytes: it was truncated", errBadPage, size)
	}
	second, err := boltMetaAt(file, int64(first.pageSize))
	if err != nil {
		return boltMeta{}, fmt.Errorf("meta page 1: %w", err)
	}
	if second.pageSize != first.pageSize {
		return boltMeta{}, fmt.Errorf("%w: meta pages disagree on the page size", errBadPage)
	}
	if second.txid > first.txid {
		return second, nil
	}
	return first, nil
}

func boltMetaAt(file io.ReaderAt, offset int64) (boltMeta, error) {
	raw := make([]byte, boltPageHeader+boltMetaSize)
	if _, err := file.ReadAt(raw, offset); err != nil {
		return boltMeta{}, fmt.Errorf("%w: %w", errBadPage, err)
	}
	u16, u32, u64 := binary.NativeEndian.Uint16, binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	body := raw[boltPageHeader:]
	sum := fnv.New64a()
	sum.Write(body[:boltMetaSize-8])
	switch {
	case u16(raw[8:])&boltMetaFlag == 0, u32(body) != boltMagic:
		return boltMeta{}, fmt.Errorf("%w: not a meta page", errBadPage)
	case u32(body[4:]) != boltVersion:
		return boltMeta{}, fmt.Errorf("%w: format version %d", errBadPage, u32(body[4:]))
	case u64(body[boltMetaSize-8:]) != sum.Sum64():
		return boltMeta{}, fmt.Errorf("%w: checksum does not match", errBadPage)
	}
	m := boltMeta{pageSize: int(u32(body[8:])), root: u64(body[16:]), pages: u64(body[40:]), txid: u64(body[48:])}
	if m.pageSize < boltPageSizeMin || m.pageSize > boltPageSizeMax {
		return boltMeta{}, fmt.Errorf("%w: page size %d", errBadPage, m.pageSize)
	}
	return m, nil
}

// page checks the page and everything below it. bucket is nil in the root bucket.
func (w *boltWalk) page(id uint64, bucket []byte, depth int) error {
	raw, err := w.read(id, depth)
	if err != nil {
		return err
	}
	if err := w.content(raw, bucket, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// read returns the page with its overflow pages, each claimed once.
func (w *boltWalk) read(id uint64, depth int) ([]byte, error) {
	if depth > boltDepthMax {
		return nil, fmt.Errorf("%w: page %d: nested too deeply", errBadPage, id)
	}
	if id < 2 || id >= w.meta.pages {
		return nil, fmt.Errorf("%w: page %d: outside the file", errBadPage, id)
	}
	head := make([]byte, boltPageHeader)
	offset := int64(id) * int64(w.meta.pageSize)
	if _, err := w.file.ReadAt(head, offset); err != nil {
		return nil, fmt.Errorf("%w: page %d: %w", errBadPage, id, err)
	}
	overflow := uint64(binary.NativeEndian.Uint32(head[12:]))
	if own := binary.NativeEndian.Uint64(head); own != id || overflow >= w.meta.pages-id {
		return nil, fmt.Errorf("%w: page %d: header says page %d with %d more", errBadPage, id, own, overflow)
	}
	for p := id; p <= id+overflow; p++ {
		if _, twice := w.seen[p]; twice {
			return nil, fmt.Errorf("%w: page %d: used twice", errBadPage, p)
		}
		w.seen[p] = struct{}{}
	}
	raw := make([]byte, int(overflow+1)*w.meta.pageSize)
	if _, err := w.file.ReadAt(raw, offset); err != nil {
		return nil, fmt.Errorf("%w: page %d: %w", errBadPage, id, err)
	}
	return raw, nil
}

// content checks the elements of a branch or leaf page, which may be one kept inline in a bucket's value.
func (w *boltWalk) content(raw, bucket []byte, depth int) error {
	if len(raw) < boltPageHeader {
		return fmt.Errorf("%w: %d bytes", errBadPage, len(raw))
	}
	flags, count := binary.NativeEndian.Uint16(raw[8:]), int(binary.NativeEndian.Uint16(raw[10:]))
	if boltPageHeader+count*boltElement > len(raw) {
		return fmt.Errorf("%w: %d elements do not fit", errBadPage, count)
	}
	switch {
	case flags == boltBranchFlag && count > 0:
		return w.branch(raw, count, bucket, depth)
	case flags == boltLeafFlag:
		return w.leaf(raw, count, bucket, depth)
	}
	return fmt.Errorf("%w: type %#x with %d elements", errBadPage, flags, count)
}

func (w *boltWalk) branch(raw []byte, count int, bucket []byte, depth int) error {
	var previous []byte
	for i := range count {
		at := boltPageHeader + i*boltElement
		pos, size := binary.NativeEndian.Uint32(raw[at:]), binary.NativeEndian.Uint32(raw[at+4:])
		key, err := cut(raw, at, pos, 0, size)
		if err != nil {
			return err
		}
		if err := ascending(previous, key, i); err != nil {
			return err
		}
		previous = key
		if err := w.page(binary.NativeEndian.Uint64(raw[at+8:]), bucket, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *boltWalk) leaf(raw []byte, count int, bucket []byte, depth int) error {
	var previous []byte
	for i := range count {
		at := boltPageHeader + i*boltElement
		flags, pos := binary.NativeEndian.Uint32(raw[at:]), binary.NativeEndian.Uint32(raw[at+4:])
		ksize, vsize := binary.NativeEndian.Uint32(raw[at+8:]), binary.NativeEndian.Uint32(raw[at+12:])
		key, err := cut(raw, at, pos, 0, ksize)
		if err != nil {
			return err
		}
		value, err := cut(raw, at, pos, ksize, vsize)
		if err != nil {
			return err
		}
		if err := ascending(previous, key, i); err != nil {
			return err
		}
		previous = key
		if err := w.pair(flags, bucket, key, value, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *boltWalk) pair(flags uint32, bucket, key, value []byte, depth int) error {
	switch {
	case flags == boltBucketFlag && bucket == nil:
		return w.bucket(key, value, depth)
	case flags == 0 && bucket != nil:
		return w.visit(bucket, key, value)
	}
	return fmt.Errorf("%w: an element of kind %#x where none belongs", errBadPage, flags)
}

func (w *boltWalk) bucket(name, value []byte, depth int) error {
	if len(value) < boltBucketHeader || len(name) == 0 {
		return fmt.Errorf("%w: bucket %q of %d bytes", errBadPage, name, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return w.page(root, name, depth+1)
	}
	return w.content(value[boltBucketHeader:], name, boltDepthMax)
}

// cut returns size bytes of raw, skip bytes after pos, which counts from the element's own place.
func cut(raw []byte, at int, pos, skip, size uint32) ([]byte, error) {
	from := uint64(at) + uint64(pos) + uint64(skip)
	if from+uint64(size) > uint64(len(raw)) || from > math.MaxInt {
		return nil, fmt.Errorf("%w: an element reaches outside it", errBadPage)
	}
	return raw[from : from+uint64(size)], nil
}

func ascending(previous, key []byte, i int) error {
	if i > 0 && bytes.Compare(previous, key) >= 0 {
		return fmt.Errorf("%w: keys are not in order", errBadPage)
	}
	return nil
}
