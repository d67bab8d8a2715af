package cbb

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"antirobot/store/frames"
)

// disk keeps the last good copies in a directory, one file per list: a line of JSON and the plain bytes.
type disk struct {
	dir      string
	readOnly bool
}

const maxTag = 256 // bytes kept of an ETag; longer ones are not sent back

// copyMeta describes a copy.
type copyMeta struct {
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
	left, err := filepath.Glob(filepath.Join(dir, ".*.list.*"))
	if err != nil {
		return nil, fmt.Errorf("directory for lists: %w", err)
	}
	for _, f := range left { // left by a process that was killed
		_ = os.Remove(f)
	}
	return &disk{dir: dir}, nil
}

func (d *disk) path(id string) string { return filepath.Join(d.dir, id+".list") }

// load returns a copy. A damaged one is removed.
func (d *disk) load(id string) (plain []byte, meta copyMeta, err error) {
	all, err := os.ReadFile(d.path(id))
	if err != nil {
		return nil, meta, err
	}
	head, plain, _ := bytes.Cut(all, []byte("\n"))
	if err = json.Unmarshal(head, &meta); err == nil && sumOf(plain) != meta.Sum {
		err = errors.New("checksum differs")
	}
	if err != nil {
		if !d.readOnly {
			_ = os.Remove(d.path(id))
		}
		return nil, meta, fmt.Errorf("kept copy %s: %w", id, err)
	}
	return plain, meta, nil
}

// keep replaces the older copy.
func (d *disk) keep(id string, plain []byte, meta copyMeta) error {
	if len(meta.ETag) > maxTag {
		meta.ETag = ""
	}
	if len(meta.Modified) > maxTag {
		meta.Modified = ""
	}
	head, err := json.Marshal(meta)
	if err == nil {
		err = frames.Replace(d.path(id), func(w io.Writer) error {
			_, err := w.Write(append(head, '\n'))
			_, err2 := w.Write(plain)
			return errors.Join(err, err2)
		})
	}
	if err != nil {
		return fmt.Errorf("keep copy: %w", err)
	}
	return nil
}

func sumOf(plain []byte) string {
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:])
}
