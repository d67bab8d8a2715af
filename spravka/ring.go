package spravka

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/securecookie"

	"antirobot/request"
)

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

// NewRing makes a ring of keys in any order. The youngest key seals, all keys open. It refuses an empty set, more
// than 64 keys, two keys with the same ID or secret, and the zero Key.
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
		rk.signers[p] = securecookie.New(k.subkey("sign", p), nil).MaxAge(0).MaxLength(0).SetSerializer(verbatim{})
		rk.sealers[p] = securecookie.New(k.subkey("seal-mac", p), k.subkey("seal-block", p)).
			MaxAge(0).MaxLength(0).SetSerializer(verbatim{})
	}
	return rk
}

// TicketKeys returns the keys for TLS session tickets at a given time, the one for new tickets first. They change
// daily, and yesterday's still open: gateways with the same ring resume each other's sessions.
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

// QUICKeys returns the secrets of a gateway's QUIC connections: one that ends connections of the same node's earlier
// processes, and one that seals the tokens of addresses, which gateways with the same ring accept from each other. A
// node must not end the connections of another.
func (r *Ring) QUICKeys(node string) (reset, token [32]byte) {
	k := r.keys[0]
	return [32]byte(k.derive("antirobot/v1/quic-reset/" + node)), [32]byte(k.derive("antirobot/v1/quic-token"))
}

// HashKey returns the key of the hashes of paths and targets that gateways and processors exchange. It is the oldest
// key's, so that it stays the same until that is dropped.
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

// Fingerprint tells rings apart without revealing a secret: caches of opened tokens include it in their keys, so that
// a token whose key was removed does not live on.
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

// IsExample reports whether the ring holds the documented key, with which anyone can make passes.
func (r *Ring) IsExample() bool {
	return slices.ContainsFunc(r.Keys(), func(k KeyInfo) bool { return k.Example })
}

// Rotate returns a ring with a new key that seals from now on. A key that stopped sealing more than keep ago is left
// out: if keep is at least the longest life of a token (30 days for passes), no client loses one. When the ring is
// full, the oldest key is removed. Gateways that share a ring read the new one at different moments: a token sealed
// with the new key does not open on a gateway that has not read it yet.
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

// Keys is the ring in use, which a reload replaces. Make it with NewKeys; safe for concurrent use.
type Keys struct{ ring atomic.Pointer[Ring] }

// NewKeys returns Keys that start with ring r.
func NewKeys(r *Ring) *Keys {
	k := new(Keys)
	k.ring.Store(r)
	return k
}

// Ring returns the ring in use.
func (k *Keys) Ring() *Ring { return k.ring.Load() }

// Prepare prepares the switch to another ring, and returns the function that makes it.
func (k *Keys) Prepare(next *Ring) (commit func(), err error) {
	if next == nil {
		return nil, errors.New("spravka: there is no key ring")
	}
	return func() { k.ring.Store(next) }, nil
}

const (
	ringFileVersion = 1
	maxRingFile     = 64 << 10
)

// ringFile is the file in JSON, so that any tool reads it.
type ringFile struct {
	Version int       `json:"version"`
	Keys    []fileKey `json:"keys"`
}

type fileKey struct {
	ID     string    `json:"id"`
	Born   time.Time `json:"born"`
	Secret string    `json:"secret"` // base64, standard alphabet
}

// LoadRing reads a ring from a file. It refuses a file that others than its owner may read or write, and a malformed
// one; for an absent file the error is fs.ErrNotExist.
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
		return nil, fmt.Errorf(
			"load key ring: %s has mode %04o and is open to others; run chmod 600 and consider its keys known", path,
			perm,
		)
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

// SaveRing writes the ring to a file of mode 0600, synced and atomically.
func SaveRing(path string, r *Ring) error {
	if err := writeFile(path, marshalRing(r), os.Rename); err != nil {
		return fmt.Errorf("save key ring: %w", err)
	}
	return nil
}

// LoadOrMakeRing is LoadRing, but creates an absent file with one new key. Of several processes that start at once,
// one creates the file and all use it. made reports that this call did.
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
	err = writeFile(path, marshalRing(r), os.Link)
	if errors.Is(err, fs.ErrExist) {
		r, err = LoadRing(path)
		return r, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("make key ring: %w", err)
	}
	return r, true, nil
}

// writeFile writes a file of mode 0600, synced; place gives it its name.
func writeFile(path string, data []byte, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a rename there is nothing left to remove
	_, err = f.Write(data)
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
		file.Keys = append(
			file.Keys, fileKey{ID: k.id, Born: k.born, Secret: base64.StdEncoding.EncodeToString(k.secret[:])},
		)
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic("BUG: marshal key ring: " + err.Error()) // a year outside 0..9999 is refused when a ring is parsed
	}
	return append(b, '\n')
}

// parseRing never repeats malformed input: it may be a secret.
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
