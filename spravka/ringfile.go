package spravka

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	ringFileVersion = 1
	maxRingFile     = 64 << 10
)

// ringFile is the file's shape; JSON, so that any tool reads it.
type ringFile struct {
	Version int       `json:"version"`
	Keys    []fileKey `json:"keys"`
}

type fileKey struct {
	ID     string    `json:"id"`
	Born   time.Time `json:"born"`
	Secret string    `json:"secret"` // base64, standard alphabet
}

// LoadRing reads a ring from a file. It refuses a file that anybody but its owner may read or write, and anything that is
// not exactly what SaveRing writes; for an absent file the error is fs.ErrNotExist.
func LoadRing(path string) (*Ring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load key ring: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("load key ring: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("load key ring: %s is not a regular file", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("load key ring: %s has mode %04o and is open to others; run chmod 600 and consider its keys known", path, perm)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRingFile+1))
	if err != nil {
		return nil, fmt.Errorf("load key ring: %w", err)
	}
	r, err := parseRing(b)
	if err != nil {
		return nil, fmt.Errorf("load key ring: %s: %w", path, err)
	}
	return r, nil
}

// SaveRing writes the ring to a file of mode 0600: to a temporary file beside it, synced, then renamed over it. A
// crash leaves the old file or the new one.
func SaveRing(path string, r *Ring) error {
	if err := writeRing(path, r, os.Rename); err != nil {
		return fmt.Errorf("save key ring: %w", err)
	}
	return nil
}

// LoadOrMakeRing is LoadRing, but creates an absent file with one new key. Of several processes that start at once, one
// creates the file and all use it. made reports that this call created it.
func LoadOrMakeRing(path string, at time.Time) (r *Ring, made bool, err error) {
	r, err = LoadRing(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, false, err
	}
	r, err = NewRing([]Key{MakeKey(at)})
	if err != nil {
		return nil, false, err
	}
	// A link fails where the name exists already; a rename would replace the other process's keys.
	err = writeRing(path, r, os.Link)
	if errors.Is(err, fs.ErrExist) {
		r, err = LoadRing(path)
		return r, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("make key ring: %w", err)
	}
	return r, true, nil
}

func writeRing(path string, r *Ring, place func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a rename there is nothing left to remove
	_, err = f.Write(marshalRing(r))
	err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func marshalRing(r *Ring) []byte {
	file := ringFile{Version: ringFileVersion}
	for i := range r.keys {
		k := &r.keys[i]
		file.Keys = append(file.Keys, fileKey{ID: k.id, Born: k.born, Secret: base64.StdEncoding.EncodeToString(k.secret[:])})
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic("BUG: marshal key ring: " + err.Error()) // a year outside 0..9999 is refused when a ring is parsed
	}
	return append(b, '\n')
}

// parseRing never repeats what it could not read: it may be a secret.
func parseRing(b []byte) (*Ring, error) {
	if len(b) > maxRingFile {
		return nil, fmt.Errorf("longer than %d bytes", maxRingFile)
	}
	var file ringFile
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, describeJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the key ring")
	}
	if file.Version != ringFileVersion {
		return nil, fmt.Errorf("version %d, this program reads version %d", file.Version, ringFileVersion)
	}
	keys := make([]Key, 0, len(file.Keys))
	for i, fk := range file.Keys {
		secret, err := base64.StdEncoding.DecodeString(fk.Secret)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: the secret is not base64", i)
		}
		k, err := newKey(fk.ID, fk.Born, secret)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		keys = append(keys, k)
	}
	return NewRing(keys)
}

func describeJSON(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not a key ring: broken JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("not a key ring: wrong type of %s at byte %d", kind.Field, kind.Offset)
	default:
		return errors.New("not a key ring: broken or unknown content")
	}
}
