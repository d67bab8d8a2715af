package spravka

import (
	"cmp"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/securecookie"

	"antirobot/request"
)

const (
	secretLen = 32
	maxKeys   = 64
	minIDLen  = 4
	maxIDLen  = 16

	// exampleSecret is the key that the documentation shows. A ring that holds it protects nothing.
	exampleSecret = "antirobot example key: not a key"
)

// Key is one sealing key: a value, never changed after it was made.
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

// Ring is the set of keys. It is immutable and safe for concurrent use: a change makes a new Ring.
type Ring struct {
	keys        []ringKey // newest first
	fingerprint uint64
}

type ringKey struct {
	Key
	signers [numPurposes]*securecookie.SecureCookie
	sealers [numPurposes]*securecookie.SecureCookie
}

// NewRing makes a ring of the given keys, in any order. The youngest key seals, all keys open. It refuses an empty set,
// more than 64 keys, two keys with the same ID or secret, and the zero Key.
func NewRing(keys []Key) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("key ring: no keys")
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("key ring: %d keys, at most %d are allowed", len(keys), maxKeys)
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(b.born.Compare(a.born), strings.Compare(a.id, b.id))
	})
	r := &Ring{keys: make([]ringKey, 0, len(keys))}
	for i, k := range keys {
		if !validKeyID(k.id) || k.secret == [secretLen]byte{} {
			return nil, fmt.Errorf("key ring: key %q is not usable", clip(k.id))
		}
		for _, o := range keys[:i] {
			if o.id == k.id {
				return nil, fmt.Errorf("key ring: two keys have the id %s", k.id)
			}
			if o.secret == k.secret {
				return nil, fmt.Errorf("key ring: keys %s and %s have the same secret", o.id, k.id)
			}
		}
		r.keys = append(r.keys, newRingKey(k))
	}
	r.fingerprint = fingerprint(keys)
	return r, nil
}

func newRingKey(k Key) ringKey {
	rk := ringKey{Key: k}
	for p := range numPurposes {
		rk.signers[p] = securecookie.New(k.subkey("sign", p), nil).
			MaxAge(0).MaxLength(0).SetSerializer(verbatim{})
		rk.sealers[p] = securecookie.New(k.subkey("seal-mac", p), k.subkey("seal-block", p)).
			MaxAge(0).MaxLength(0).SetSerializer(verbatim{})
	}
	return rk
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

// TicketKeys returns the keys for TLS session tickets at a given time, the one for new tickets first. They change every day,
// and those of the day before still open: gateways with the same ring resume each other's sessions.
func (r *Ring) TicketKeys(at time.Time) (keys [][32]byte) {
	const day = 24 * time.Hour
	for _, shift := range [...]time.Duration{0, -day, day} { // the clocks of other gateways may be ahead
		date := at.Add(shift).UTC().Format(time.DateOnly)
		for i := range r.keys {
			keys = append(keys, [32]byte(r.keys[i].derive("antirobot/v1/tls-ticket/"+date)))
		}
	}
	return keys
}

// QUICKeys returns the secrets of a gateway's QUIC connections: one that ends connections of the same node's earlier processes,
// and one that seals the tokens of addresses, which gateways with the same ring take from each other. A node must not end
// the connections of another.
func (r *Ring) QUICKeys(node string) (reset, token [32]byte) {
	k := r.keys[0]
	return [32]byte(k.derive("antirobot/v1/quic-reset/" + node)), [32]byte(k.derive("antirobot/v1/quic-token"))
}

// HashKey returns the key by which paths and targets are hashed in what gateways and processors with the same ring tell each other, and in what
// they keep of it. It is the oldest key's, so that it stays the same until that is dropped.
func (r *Ring) HashKey() request.HashKey {
	b := r.keys[len(r.keys)-1].derive("antirobot/v1/hash")
	return request.HashKey{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

func fingerprint(keys []Key) uint64 {
	h := sha256.New()
	for _, k := range keys {
		h.Write(k.derive("antirobot/v1/fingerprint"))
		h.Write([]byte(k.id))
		h.Write([]byte{0})
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// Fingerprint tells rings apart without revealing a secret: caches of opened tokens include it in their keys, so that a
// token whose key was removed does not live on in a cache.
func (r *Ring) Fingerprint() uint64 { return r.fingerprint }

// Format prints the IDs alone, whatever the verb (invariant 6).
func (r *Ring) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "key ring")
	for i := range r.keys {
		_, _ = io.WriteString(f, " "+r.keys[i].id)
	}
}

// Keys lists the keys, newest first, without their secrets.
func (r *Ring) Keys() []KeyInfo {
	infos := make([]KeyInfo, len(r.keys))
	for i := range r.keys {
		k := &r.keys[i]
		infos[i] = KeyInfo{ID: k.id, Born: k.born, Seals: i == 0, Example: string(k.secret[:]) == exampleSecret}
	}
	return infos
}

// IsExample reports whether the ring holds the key shown in the documentation, as the sealing key or as an old one: in both
// cases anybody can make passes.
func (r *Ring) IsExample() bool {
	return slices.ContainsFunc(r.Keys(), func(k KeyInfo) bool { return k.Example })
}

// ExampleKey is the key that the documentation shows; see IsExample.
func ExampleKey() Key {
	k := Key{id: "example0", born: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	copy(k.secret[:], exampleSecret)
	return k
}

// Rotate returns a ring with a new key that seals from now on. A key that stopped sealing more than keep ago is left out:
// if keep is at least the longest life of a token (30 days for passes), nobody loses one. When the ring is full, the oldest
// key is removed. Gateways that share a ring read the new one at different moments: a token that one gateway seals with the
// new key does not open on another until that one has read it too.
func (r *Ring) Rotate(at time.Time, keep time.Duration) (*Ring, error) {
	fresh := MakeKey(at)
	if newest := r.keys[0].born; !fresh.born.After(newest) {
		// Two rotations in one second, or a clock that was set back: the new key must still be the newest.
		fresh.born = newest.Add(time.Second)
	}
	keys := []Key{fresh}
	ceased := at // when the key stopped sealing: the birth of the next one; the present one stops now
	for i := range r.keys {
		k := r.keys[i].Key
		if at.Sub(ceased) > keep || len(keys) == maxKeys {
			break
		}
		keys = append(keys, k)
		ceased = k.born
	}
	return NewRing(keys)
}
