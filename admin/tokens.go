package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
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
