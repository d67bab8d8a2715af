package spravka

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	secretLen = 32
	maxKeys   = 64
	minIDLen  = 4
	maxIDLen  = 16

	// exampleSecret is the key that the documentation shows. A ring that holds it protects nothing.
	exampleSecret = "antirobot example key: not a key"
)

// Key is one sealing key. It is immutable.
type Key struct {
	id     string
	born   time.Time
	secret [secretLen]byte
}

// MakeKey makes a key of 32 random bytes with a short random ID, born at the given time.
func MakeKey(at time.Time) Key {
	k := Key{born: at.UTC().Truncate(time.Second)}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	_, _ = rand.Read(k.secret[:])
	k.id = hex.EncodeToString(id[:])
	return k
}

// newKey makes a key from an operator's configuration: an ID of 4 to 16 characters [a-z0-9] and a secret of 32 bytes.
func newKey(id string, born time.Time, secret []byte) (Key, error) {
	if !validKeyID(id) {
		return Key{}, fmt.Errorf("key id %q: must be %d to %d characters of a-z and 0-9", clip(id), minIDLen, maxIDLen)
	}
	if len(secret) != secretLen {
		return Key{}, fmt.Errorf("key %s: the secret has %d bytes, must have %d", id, len(secret), secretLen)
	}
	if y := born.UTC().Year(); y < 1970 || y > 2999 {
		return Key{}, fmt.Errorf("key %s: born in the year %d", id, y)
	}
	k := Key{id: id, born: born.UTC().Truncate(time.Second)}
	copy(k.secret[:], secret)
	return k, nil
}

// Format prints the ID alone, whatever the verb (invariant 6).
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key "+k.id) }

func validKeyID(id string) bool {
	if len(id) < minIDLen || len(id) > maxIDLen {
		return false
	}
	return strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "…"
	}
	return s
}

// KeyInfo is the public part of a key.
type KeyInfo struct {
	ID      string
	Born    time.Time
	Seals   bool // the newest: new tokens carry its seal
	Example bool // the documented example key
}

// subkey derives 32 bytes for one use within one purpose.
func (k Key) subkey(use string, p Purpose) []byte {
	return k.derive("antirobot/v1/" + use + "/" + p.String())
}

func (k Key) derive(info string) []byte {
	b, err := hkdf.Key(sha256.New, k.secret[:], nil, info, 32)
	if err != nil {
		panic("BUG: hkdf: " + err.Error())
	}
	return b
}

// ExampleKey is the key in the documentation; see IsExample.
func ExampleKey() Key {
	k := Key{id: "example0", born: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	copy(k.secret[:], exampleSecret)
	return k
}
