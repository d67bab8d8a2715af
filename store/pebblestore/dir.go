package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Reasons why a directory is not opened. It is then unchanged.
var (
	// errForeign: the directory has foreign contents, or an unknown format.
	errForeign = errors.New("not a data directory of this program")
	// errHeld: another process, or another Store of this process, has the directory open.
	errHeld = errors.New("data directory is in use")
	// errReadOnly: the directory cannot be written to.
	errReadOnly = errors.New("data directory is read-only")
	// errDamaged: the directory is ours, but its contents are inconsistent.
	errDamaged = errors.New("data directory is damaged")
)

const (
	lockName   = "LOCK"
	holderName = "HOLDER"
	stateName  = "state"
	countsName = "counters"
	roomName   = "ROOM" // written to test whether the disk has room, then removed
	newSuffix  = ".new"
	formatName = "FORMAT" // written before an engine's directory gets its final name
	format     = "antirobot store 1\n"
)

// ownNames may exist without a state: after an interrupted first start, or on a fresh mount.
var ownNames = []string{lockName, holderName, roomName, stateName + newSuffix, "lost+found"}

// survey examines dir without changing it, and reports whether it has a state.
func survey(dir string) (exists bool, err error) {
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read data directory: %w", err)
	}
	var strange []string
	for _, e := range list {
		if e.Name() == stateName {
			return true, checkFormat(filepath.Join(dir, stateName))
		}
		if !slices.Contains(ownNames, e.Name()) {
			strange = append(strange, e.Name())
		}
	}
	if len(strange) > 0 {
		more := ""
		if len(strange) > 3 {
			more = fmt.Sprintf(" and %d more", len(strange)-3)
			strange = strange[:3]
		}
		return false, fmt.Errorf("%w: %s has no state of ours, but holds %q%s; name an empty or a new directory "+
			"(nothing was changed)",
			errForeign, dir, strange, more)
	}
	return false, nil
}

func checkFormat(dir string) error {
	got, err := os.ReadFile(filepath.Join(dir, formatName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s has no file %s; name another directory, or restore the file from a backup if this "+
			"is ours (nothing was changed)",
			errForeign, dir, formatName)
	case err != nil:
		return fmt.Errorf("read format of data directory: %w", err)
	case string(got) == format:
		return nil
	case strings.HasPrefix(string(got), "antirobot store "):
		return fmt.Errorf("%w: %s is of the format %q and this program knows %q; run the version that wrote it, or "+
			"name another directory (nothing was changed)",
			errForeign, dir, strings.TrimSpace(string(got)), strings.TrimSpace(format))
	default:
		return fmt.Errorf("%w: %s/%s is not ours; name another directory (nothing was changed)", errForeign, dir,
			formatName)
	}
}

// hold takes the directory for this process, until the returned Closer is closed.
func hold(dir string) (io.Closer, error) {
	lock, err := vfs.Default.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil, fmt.Errorf("%w: %s: %w; let the gateway's user write there, or name another directory",
			errReadOnly, dir, err)
	}
	if err != nil {
		who := "another process (its id is not known)"
		if b, err := os.ReadFile(filepath.Join(dir, holderName)); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				who = fmt.Sprintf("process %d", pid)
				if pid == os.Getpid() {
					who = "this process already"
				}
			}
		}
		return nil, fmt.Errorf("%w: %s is held by %s; stop it, or name another directory (%w)", errHeld, dir, who, err)
	}
	if err := os.WriteFile(filepath.Join(dir, holderName), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		_ = lock.Close() // the first error is the one to report
		return nil, fmt.Errorf("write %s in data directory: %w", holderName, err)
	}
	return lock, nil
}

// create makes an engine's directory completely or not at all: build fills it under another name.
func create(dir, name string, build func(dir string) error) error {
	path := filepath.Join(dir, name)
	fresh := path + newSuffix
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove unfinished %s: %w", fresh, err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if err := writeSynced(filepath.Join(fresh, formatName), format); err != nil {
		return fmt.Errorf("write format of data directory: %w", err)
	}
	if err := build(fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("name data directory: %w", err)
	}
	return syncDir(dir)
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	return nil
}
