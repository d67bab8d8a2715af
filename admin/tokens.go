package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Role is what a token may do. Each role includes those before it.
type Role uint8

// The roles.
const (
	Viewer   Role = iota + 1 // sees everything
	Operator                 // makes and lifts bans, keeps lists and labels, lets through, erases
	Admin                    // reloads, revokes passes, takes profiles and training data
)

var roleNames = [...]string{Viewer: "viewer", Operator: "operator", Admin: "admin"}

func (r Role) String() string { return roleNames[r] }

func parseRole(s string) (Role, bool) {
	i := slices.Index(roleNames[:], s)
	return Role(i), i > 0 //nolint:gosec // a place in a short list
}

// TokenConfig is a token in addition to that of token_file. Only its hash is kept: `antirobot tokens make` prints both.
type TokenConfig struct {
	Name    string `mapstructure:"name"`    // who acts, as the journal and the log say it
	Role    string `mapstructure:"role"`    // viewer, operator or admin
	Hash    string `mapstructure:"hash"`    // sha256: and 64 hex digits
	Expires string `mapstructure:"expires"` // a day such as 2026-12-31, or a time of RFC 3339; empty: never
}

const (
	hashPrefix = "sha256:"
	maxTokens  = 1000
	rootName   = "admin.token" // who acts with the token of token_file
)

// MakeToken returns a fresh token of 256 bits, and what the configuration keeps of it.
func MakeToken() (token, hash string) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	token = hex.EncodeToString(raw[:])
	sum := sha256.Sum256([]byte(token))
	return token, hashPrefix + hex.EncodeToString(sum[:])
}

func validateTokens(all []TokenConfig) error {
	var errs []error
	if len(all) > maxTokens {
		errs = append(errs, fmt.Errorf("tokens: %d are more than %d", len(all), maxTokens))
	}
	names := map[string]bool{rootName: true}
	for i := range all {
		t := &all[i]
		bad := func(key, format string, args ...any) {
			errs = append(errs, fmt.Errorf("tokens[%d].%s: %s", i, key, fmt.Sprintf(format, args...)))
		}
		if t.Name == "" || len(t.Name) > 64 || checkReason(t.Name) != nil {
			bad("name", "%q is not a line of 1 to 64 bytes", t.Name)
		} else if names[t.Name] {
			bad("name", "%q is another's", t.Name)
		}
		names[t.Name] = true
		if _, ok := parseRole(t.Role); !ok {
			bad("role", "%q is none of viewer, operator, admin", t.Role)
		}
		if _, ok := parseHash(t.Hash); !ok {
			bad("hash", "it is not sha256: and 64 hex digits; `antirobot tokens make` prints one")
		}
		if _, err := parseExpiry(t.Expires); err != nil {
			bad("expires", "%q is neither a day such as 2026-12-31 nor a time such as 2026-12-31T12:00:00Z", t.Expires)
		}
	}
	return errors.Join(errs...)
}

func parseHash(s string) (sum [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(digits) != 2*len(sum) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil
}

// parseExpiry reads when a token ends; zero: never. A day ends with it.
func parseExpiry(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.Parse(time.DateOnly, s); err == nil {
		return d.AddDate(0, 0, 1), nil
	}
	return time.Parse(time.RFC3339, s)
}

// Caller is who holds a token.
type Caller struct {
	Name    string
	Role    Role
	expires time.Time // zero: never
	gateway bool      // another gateway asks
}

// Valid reports whether the token has not expired.
func (c *Caller) Valid(at time.Time) bool { return c.expires.IsZero() || at.Before(c.expires) }

// known is a token that is accepted: its hash and its holder.
type known struct {
	sum [sha256.Size]byte
	Caller
}

type bearers []known

func newBearers(root string, others []TokenConfig) bearers {
	all := bearers{{sha256.Sum256([]byte(root)), Caller{Name: rootName, Role: Admin}}}
	for i := range others {
		k := known{Caller: Caller{Name: others[i].Name}}
		k.sum, _ = parseHash(others[i].Hash)          // checked by Validate, as are the others
		k.Role, _ = parseRole(others[i].Role)         //
		k.expires, _ = parseExpiry(others[i].Expires) //
		all = append(all, k)
	}
	return all
}

// find returns who holds a token. All are compared, so that the time says nothing; hashing makes it independent of the
// length too.
func (b bearers) find(token string, at time.Time) (c Caller, ok bool) {
	sum := sha256.Sum256([]byte(token))
	for i := range b {
		if subtle.ConstantTimeCompare(sum[:], b[i].sum[:]) == 1 && b[i].Valid(at) {
			c, ok = b[i].Caller, true
		}
	}
	return c, ok
}

func (b bearers) ofField(field []byte, at time.Time) (Caller, bool) {
	const scheme = "bearer "
	if len(field) < len(scheme) || !strings.EqualFold(string(field[:len(scheme)]), scheme) {
		return Caller{}, false
	}
	return b.find(strings.TrimSpace(string(field[len(scheme):])), at)
}

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

const (
	triesEach = 10 // wrong tokens of one address within triesFor
	triesAll  = 100
	triesFor  = time.Minute
	// triesWait is how long an address that has sent too many waits for each further answer.
	triesWait = time.Second
)

// Tries counts wrong tokens by address. A right one is never refused, so this slows guesses down and keeps the log
// short. The zero value is ready for use. It is safe for concurrent use, and bounded by triesAll.
type Tries struct {
	mu    sync.Mutex
	wrong map[string]int
	sum   int
	since time.Time
}

// Allowed reports whether an address may send a further wrong token.
func (t *Tries) Allowed(from string, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == nil || at.Sub(t.since) > triesFor || at.Before(t.since) {
		t.since, t.sum, t.wrong = at, 0, map[string]int{}
	}
	return t.wrong[from] < triesEach && t.sum < triesAll
}

// Note counts a wrong token of an address, which was allowed.
func (t *Tries) Note(from string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong[from]++
	t.sum++
}
