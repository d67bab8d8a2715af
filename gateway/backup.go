package gateway

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"antirobot/store/pebblestore"
)

// A backup is a data directory with a file that identifies it: `antirobot restore` copies it into the place of another.
const (
	backupName   = "BACKUP" // written last: without it a backup is not complete
	backupFormat = "antirobot backup 1\n"
	storeName    = "store"
	journalName  = "journal"
	queueName    = "counter-queue"
)

// leftOut are parts of a data directory that are not copied file by file. The store and the journal are copied as of
// one moment; counts that wait for a shared store belong to that one's backup, and lists are fetched again.
var leftOut = []string{storeName, journalName, queueName, "lists", backupName, "lost+found"}

// Backup implements admin.Gateway: it writes a consistent copy of the data directory into dir while the gateway runs.
// With a store that gateways share, the copy has no store: that has a backup of its own.
func (a *Server) Backup(dir string) (err error) {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%q is no absolute path", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // it was made here
		}
	}()
	if s, ok := a.storage.store.Store.(*pebblestore.Store); ok {
		if !sameFileSystem(dir, a.Config().DataDir) {
			return fmt.Errorf("%s is not in the file system of the data directory %s; name a directory there, and "+
				"copy it away afterwards", dir, a.Config().DataDir)
		}
		if err := s.Checkpoint(filepath.Join(dir, storeName)); err != nil {
			return err
		}
	}
	if a.figures.journal != nil {
		if err := a.figures.journal.Backup(filepath.Join(dir, journalName)); err != nil {
			return err
		}
	}
	if err := copyTree(dir, a.Config().DataDir, append([]string{relativeTo(a.Config().DataDir, dir)},
		leftOut...)); err != nil {
		return err
	}
	if file := a.Config().KeyFile(); !a.Config().Store.Shared() &&
		filepath.Dir(file) != filepath.Clean(a.Config().DataDir) {
		if err := copyFile(filepath.Join(dir, "keys.json"), file); err != nil {
			return err
		}
	}
	said := fmt.Sprintf("%smade %s by %s\n", backupFormat, time.Now().UTC().Format(time.RFC3339), a.version)
	if err := os.WriteFile(filepath.Join(dir, backupName), []byte(said), 0o600); err != nil {
		return err
	}
	a.log.Info().Str("dir", dir).Msg("backup made")
	return nil
}

// relativeTo returns the first step from base towards a path below it; "" if it lies elsewhere.
func relativeTo(base, path string) string {
	base, err := filepath.Abs(base)
	if err != nil {
		return ""
	}
	rest, err := filepath.Rel(base, path)
	if err != nil || strings.HasPrefix(rest, "..") {
		return ""
	}
	first, _, _ := strings.Cut(rest, string(filepath.Separator))
	return first
}

// Restore copies a backup into the place of a data directory that does not exist or is empty.
func Restore(backup, dir string) error {
	said, err := os.ReadFile(filepath.Join(backup, backupName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is no backup, or is not complete: it has no file %s; `antirobot backup DIR` makes one",
			backup, backupName)
	case err != nil:
		return err
	case !strings.HasPrefix(string(said), backupFormat):
		first, _, _ := strings.Cut(string(said), "\n")
		return fmt.Errorf("%s has the format %q and this program knows %q; restore it with the version that made it",
			backup, first, strings.TrimSpace(backupFormat))
	}
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%s is not empty (%s); stop the gateway and move the directory away first: nothing of "+
				"it is overwritten", dir, e.Name())
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return copyTree(dir, backup, []string{backupName})
}

// copyTree copies the files and directories of one directory into another, without those whose names are given.
func copyTree(to, from string, without []string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range list {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case slices.Contains(without, e.Name()):
		case e.IsDir() && exists(filepath.Join(source, backupName)): // an earlier one
		case e.IsDir():
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			if err := copyTree(target, source, nil); err != nil {
				return err
			}
		case e.Type().IsRegular():
			// it was a temporary one
			if err := copyFile(target, source); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyFile copies a file, for its owner alone, and syncs it.
func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// sameFileSystem reports whether a file can be linked from one path to the other.
func sameFileSystem(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX != nil || errY != nil {
		return false
	}
	sx, okX := x.Sys().(*syscall.Stat_t)
	sy, okY := y.Sys().(*syscall.Stat_t)
	return okX && okY && sx.Dev == sy.Dev
}
