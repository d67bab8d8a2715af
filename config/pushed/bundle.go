// Package pushed keeps the configuration that several gateways take from the store which they share: its versions,
// which of them is in force, and which gateway runs what.
//
// A bundle is a configuration file, and the files that it names. Every value of the store carries a code made with the
// secret that the gateways share: who can write to the store alone can't give them a configuration.
package pushed

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds a bundle, unpacked; maxFiles how many files it has.
const (
	MaxBytes = 64 << 20
	maxFiles = 1000
)

// Bundle is a configuration file with the files that it names. The names are relative to it, with slashes.
type Bundle struct {
	Config []byte            `json:"config"`
	Files  map[string][]byte `json:"files,omitempty"`
}

// Pack reads a configuration file, and the files and directories that its values name, as far as they lie below its own
// directory and are named relative to it. Others are the gateways' own.
func Pack(file string) (*Bundle, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Config: text, Files: map[string][]byte{}}
	values, err := b.values(nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	size := len(text)
	eachText(values, func(s string) string {
		if err == nil && filepath.IsLocal(s) && s != "." {
			err = b.pack(root.FS(), filepath.ToSlash(filepath.Clean(s)), &size)
		}
		return s
	})
	return b, err
}

// pack adds a named file, if the name is not empty.
func (b *Bundle) pack(dir fs.FS, name string, size *int) error {
	return fs.WalkDir(dir, name, func(path string, e fs.DirEntry, err error) error {
		if err != nil && path == name {
			return fs.SkipAll // no file: the value means something else
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := fs.ReadFile(dir, path)
		if err != nil {
			return err
		}
		b.Files[path] = text
		if *size += len(text); *size > MaxBytes || len(b.Files) > maxFiles {
			return fmt.Errorf("the configuration and its files are more than %d MiB, or %d files", MaxBytes>>20,
				maxFiles)
		}
		return nil
	})
}

// Unpack writes the bundle's files into dir, which it makes, and returns the configuration's values, in which the names
// of these files and of their directories lead there.
func (b *Bundle) Unpack(dir string) (map[string]any, error) {
	known := map[string]bool{}
	for name, text := range b.Files {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%.80q is no name of a file in a bundle", name)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return nil, err
		}
		for n := filepath.ToSlash(filepath.Clean(name)); n != "."; n = filepath.ToSlash(filepath.Dir(n)) {
			known[n] = true
		}
	}
	return b.values(func(s string) string {
		if s != "" && filepath.IsLocal(s) && known[filepath.ToSlash(filepath.Clean(s))] {
			return filepath.Join(dir, filepath.FromSlash(s))
		}
		return s
	})
}

// values reads the configuration, with each text replaced by what f makes of it; nil leaves them alone.
func (b *Bundle) values(f func(string) string) (map[string]any, error) {
	var values map[string]any
	if err := yaml.Unmarshal(b.Config, &values); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, errors.New("the configuration is empty")
	}
	if f != nil {
		eachText(values, f)
	}
	return values, nil
}

// eachText replaces all texts below v, and returns what v becomes.
func eachText(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case map[string]any:
		for k, e := range v {
			v[k] = eachText(e, f)
		}
	case []any:
		for i, e := range v {
			v[i] = eachText(e, f)
		}
	}
	return v
}

// Encode returns the compressed form in which a bundle travels.
func (b *Bundle) Encode() ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(z).Encode(b), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decode reads what Encode wrote. It reads no more than a bundle may have.
func Decode(data []byte) (*Bundle, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a bundle is a gzip file: %w", err)
	}
	limit := int64(MaxBytes)*4/3 + MaxBytes/8 // base64, and names
	text, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("a bundle is a gzip file: %w", err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("a bundle has at most %d MiB", MaxBytes>>20)
	}
	b := &Bundle{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(b); err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	if len(b.Files) > maxFiles {
		return nil, fmt.Errorf("a bundle has at most %d files", maxFiles)
	}
	for name := range b.Files {
		if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("%.80q is no name of a file in a bundle", name)
		}
	}
	return b, nil
}
