package admin

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// minTokenLen is the shortest token that an operator may put into the file: 128 bits in hex.
const minTokenLen = 32

// maxTokenFile bounds the size of a token file.
const maxTokenFile = 4 << 10

// LoadOrMakeToken returns the bearer token in the file path. An absent file is made with a fresh token of 256 bits and
// mode 0600, its directory must exist; of several processes that start at once all get the same token. A file that
// other users may read, or a token shorter than 32 characters, is refused.
func LoadOrMakeToken(path string) (string, error) {
	tok, err := loadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return tok, err
	}
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make admin token: %w", err)
	}
	return loadToken(path)
}

func loadToken(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	if st.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("admin token: %s has mode %04o, everybody on this machine may use it: chmod 600 it", path,
			st.Mode().Perm())
	}
	if st.Size() > maxTokenFile {
		return "", fmt.Errorf("admin token: %s has %d bytes, that is not a token", path, st.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	tok := strings.TrimSpace(string(b))
	if len(tok) < minTokenLen || strings.ContainsFunc(tok, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("admin token: %s holds no token of at least %d printable characters; delete it to get "+
			"a new one", path, minTokenLen)
	}
	return tok, nil
}

// makeToken writes a fresh token next to path and links it into place, so that no process reads half a token.
func makeToken(path string) error {
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".admin.token-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its name only: the link stays
	_, err = f.WriteString(hex.EncodeToString(raw[:]) + "\n")
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
