package raftnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrCannotWrite: a folder of the data directory takes no data: its file system is full or read-only, or the node's user
// may not write there. The node does not take part; nothing on disk has changed. The message names the folder and the
// remedy.
var ErrCannotWrite = errors.New("data directory cannot be written")

const (
	roomFile  = ".room"
	roomBytes = 1 << 20 // some hundred log entries
)

// checkRoom finds out by writing whether the directory and each group's folder take some more data. A store opens on a
// full disk, and goes on for a while in its own free pages: without this check a node that failed for want of space would
// vote, win elections and fail again, as often as it is started.
func (d *DataDir) checkRoom() error {
	id := d.Identity()
	for _, dir := range append([]string{""}, groupNames(id.Groups)...) {
		if err := probeRoom(filepath.Join(d.path, dir)); err != nil {
			return err
		}
	}
	return nil
}

func groupNames(groups []GroupID) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = string(g)
	}
	return names
}

// probeRoom writes a file into dir, durably, and removes it. A folder that is gone is for others to judge.
func probeRoom(dir string) error {
	path := filepath.Join(dir, roomFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cannotWrite(dir, err)
	}
	filling := make([]byte, roomBytes)
	_, _ = rand.Read(filling) // never fails; zeros may take no room
	_, err = f.Write(filling)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close(), os.Remove(path)); err != nil {
		return cannotWrite(dir, err)
	}
	return nil
}

func cannotWrite(path string, cause error) error {
	return fmt.Errorf("%s: %w: %w: %s", path, ErrCannotWrite, cause, remedy(cause))
}

// remedy is what an operator does about an error of the disk before the node is started again.
func remedy(cause error) string {
	switch {
	case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		return fmt.Sprintf("make room on that file system, %d MiB at the very least, without touching the node's own files, and start the node again; it catches up by itself",
			roomBytes>>20)
	case errors.Is(cause, syscall.EROFS):
		return "mount it writable and start the node again; if it became read-only by itself, the kernel's log says why: have the disk examined first"
	case errors.Is(cause, fs.ErrPermission):
		return "let the node's user write there and start the node again"
	}
	return "have the disk and this machine examined, and start the node again: it checks all of its data, and says what to do if some is damaged"
}
