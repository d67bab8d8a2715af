package cbb

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// disk keeps the last good copies in a directory, one file per list: a header of fixed size and the plain bytes.
type disk struct {
	dir      string
	readOnly bool
}

const (
	headerSize  = 1024
	diskVersion = 1
	maxTag      = 256 // bytes kept of an ETag; longer ones are not sent back
)

// copyMeta describes a copy.
type copyMeta struct {
	Version  int       `json:"version"`
	ETag     string    `json:"etag,omitempty"`
	Modified string    `json:"modified,omitempty"`
	Fetched  time.Time `json:"fetched"`
	Sum      string    `json:"sha256"` // of the plain bytes
}

func newDisk(dir string, readOnly bool) (*disk, error) {
	if dir == "" {
		return nil, nil //nolint:nilnil // no directory, no copies
	}
	if readOnly {
		return &disk{dir: dir, readOnly: true}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory for lists: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil {
		return nil, fmt.Errorf("directory for lists: %w", err)
	}
	for _, f := range left { // left by a process that was killed
		_ = os.Remove(f)
	}
	return &disk{dir: dir}, nil
}

func (d *disk) path(id string) string { return filepath.Join(d.dir, id+".list") }

func (d *disk) open(id string) (io.ReadCloser, copyMeta, error) {
	f, err := os.Open(d.path(id))
	if err != nil {
		return nil, copyMeta{}, err
	}
	meta, err := checkCopy(f)
	if err != nil {
		_ = f.Close()
		if !d.readOnly {
			_ = os.Remove(d.path(id))
		}
		return nil, copyMeta{}, fmt.Errorf("kept copy %s: %w", id, err)
	}
	return f, meta, nil
}

func checkCopy(f *os.File) (copyMeta, error) {
	var meta copyMeta
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return meta, err
	}
	if err := json.Unmarshal(head, &meta); err != nil {
		return meta, fmt.Errorf("header: %w", err)
	}
	if meta.Version != diskVersion {
		return meta, fmt.Errorf("version %d", meta.Version)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return meta, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != meta.Sum {
		return meta, fmt.Errorf("checksum differs")
	}
	_, err := f.Seek(headerSize, io.SeekStart)
	return meta, err
}

type diskWriter struct {
	d    *disk
	err  error // the first error of Write; a full disk must not stop the reading
	f    *os.File
	w    *bufio.Writer
	done bool
}

func (d *disk) create() (*diskWriter, error) {
	f, err := os.CreateTemp(d.dir, "copy-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("keep copy: %w", err)
	}
	w := &diskWriter{d: d, f: f, w: bufio.NewWriterSize(f, 64<<10)}
	if _, err := w.w.Write(make([]byte, headerSize)); err != nil {
		w.abort()
		return nil, fmt.Errorf("keep copy: %w", err)
	}
	return w, nil
}

func (w *diskWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		_, w.err = w.w.Write(p)
	}
	return len(p), nil
}

// commit writes the header and replaces the older copy, atomically and durably.
func (w *diskWriter) commit(id string, meta copyMeta) error {
	meta.Version = diskVersion
	if len(meta.ETag) > maxTag {
		meta.ETag = ""
	}
	if len(meta.Modified) > maxTag {
		meta.Modified = ""
	}
	head, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("keep copy: %w", err)
	}
	if len(head) > headerSize { // an ETag full of bytes that JSON escapes
		meta.ETag, meta.Modified = "", ""
		if head, err = json.Marshal(meta); err != nil {
			return fmt.Errorf("keep copy: %w", err)
		}
	}
	for len(head) < headerSize {
		head = append(head, ' ')
	}
	if err := w.finish(id, head); err != nil {
		return fmt.Errorf("keep copy: %w", err)
	}
	return nil
}

func (w *diskWriter) finish(id string, head []byte) error {
	if w.err != nil {
		return w.err
	}
	if err := w.w.Flush(); err != nil {
		return err
	}
	if _, err := w.f.WriteAt(head, 0); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	w.done = true
	if err := w.f.Close(); err != nil {
		return err
	}
	if err := os.Rename(w.f.Name(), w.d.path(id)); err != nil {
		_ = os.Remove(w.f.Name())
		return err
	}
	dir, err := os.Open(w.d.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// abort removes an uncommitted copy; after commit it does nothing.
func (w *diskWriter) abort() {
	if w.done {
		return
	}
	w.done = true
	_ = w.f.Close()
	_ = os.Remove(w.f.Name())
}
