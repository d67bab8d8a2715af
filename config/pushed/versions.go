package pushed

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"antirobot/store"
)

// Kept is how many versions a rollback can choose from.
const Kept = 10

// nodeTTL is how long a gateway is listed after its last report.
const nodeTTL = 5 * time.Minute

// Version is one that was pushed.
type Version struct {
	Number uint64    `json:"version"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Note   string    `json:"note,omitempty"`
	Bytes  int       `json:"bytes"` // compressed
	Sum    string    `json:"sha256"`
}

// Index is which versions there are, newest last.
type Index struct {
	InForce  uint64    `json:"in_force"` // 0: none; the gateways' own files hold
	Last     uint64    `json:"last"`
	Versions []Version `json:"versions"`
}

// Find returns a version that is kept.
func (x *Index) Find(number uint64) (Version, bool) {
	i := slices.IndexFunc(x.Versions, func(v Version) bool { return v.Number == number })
	if i < 0 {
		return Version{}, false
	}
	return x.Versions[i], true
}

// Before returns the version before the one in force, 0 if there is none.
func (x *Index) Before() (number uint64) {
	for _, v := range x.Versions {
		if v.Number < x.InForce {
			number = v.Number
		}
	}
	return number
}

// Node is what a gateway says of itself.
type Node struct {
	Name    string    `json:"name"`
	Version uint64    `json:"version"`         // that it runs
	Error   string    `json:"error,omitempty"` // why it does not run the one in force
	At      time.Time `json:"at"`
}

// Errors that callers must be able to tell apart.
var (
	// ErrNoVersion is returned for a version that is not kept.
	ErrNoVersion = errors.New("pushed: no such version")
	// errForged is returned for values without the right code.
	errForged = errors.New("pushed: what the store has was not made with this gateway's secret")
)

// Versions are what a store keeps. KV and Secret are required; safe for concurrent use.
type Versions struct {
	KV     store.KV
	Secret []byte // that the gateways share
}

var indexKey = []byte("push/index")

const nodePrefix = "push/node/"

func bundleKey(v *Version) []byte { return fmt.Appendf(nil, "push/bundle/%d-%s", v.Number, v.Sum) }

// code is what a value must begin with, which depends on where it is kept.
func (s *Versions) code(key, val []byte) []byte {
	m := hmac.New(sha256.New, append([]byte("antirobot push\x00"), s.Secret...))
	_, _ = m.Write(strconv.AppendInt(nil, int64(len(key)), 10)) // a hash takes everything
	_, _ = m.Write(key)
	_, _ = m.Write(val)
	return m.Sum(nil)
}

func (s *Versions) sign(key, val []byte) []byte { return append(s.code(key, val), val...) }

func (s *Versions) get(ctx context.Context, key []byte) (raw, val []byte, err error) {
	raw, err = s.KV.Get(ctx, nil, key)
	if err != nil {
		return nil, nil, err
	}
	if len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], s.code(key, raw[sha256.Size:])) {
		return nil, nil, errForged
	}
	return raw, raw[sha256.Size:], nil
}

// Index returns which versions there are.
func (s *Versions) Index(ctx context.Context) (*Index, error) {
	x, _, err := s.index(ctx)
	return x, err
}

func (s *Versions) index(ctx context.Context) (x *Index, raw []byte, err error) {
	raw, val, err := s.get(ctx, indexKey)
	if errors.Is(err, store.ErrNotFound) {
		return &Index{}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	x = &Index{}
	if err := json.Unmarshal(val, x); err != nil {
		return nil, nil, fmt.Errorf("pushed: index: %w", err)
	}
	return x, raw, nil
}

// change replaces the index by the result of f, and retries after a concurrent change.
func (s *Versions) change(ctx context.Context, f func(x *Index) error) (*Index, error) {
	for {
		x, raw, err := s.index(ctx)
		if err != nil {
			return nil, err
		}
		if err := f(x); err != nil {
			return nil, err
		}
		text, err := json.Marshal(x)
		if err != nil {
			return nil, err
		}
		if ok, err := s.KV.Swap(ctx, indexKey, raw, s.sign(indexKey, text), 0); err != nil || ok {
			return x, err
		}
	}
}

// Add keeps a bundle as the next version, and puts it in force.
func (s *Versions) Add(ctx context.Context, b *Bundle, v Version) (Version, error) {
	text, err := b.Encode()
	if err != nil {
		return v, err
	}
	sum := sha256.Sum256(text)
	v.Bytes, v.Sum = len(text), fmt.Sprintf("%x", sum[:16])
	var gone []Version
	_, err = s.change(ctx, func(x *Index) error {
		v.Number = x.Last + 1
		key := bundleKey(&v)
		if err := s.KV.Put(ctx, key, s.sign(key, text), 0); err != nil {
			return err
		}
		x.InForce, x.Last, x.Versions = v.Number, v.Number, append(x.Versions, v)
		n := max(len(x.Versions)-Kept, 0)
		gone, x.Versions = x.Versions[:n:n], x.Versions[n:]
		return nil
	})
	for i := range gone {
		err = errors.Join(err, s.KV.Delete(ctx, bundleKey(&gone[i])))
	}
	return v, err
}

// Use puts a version in force that is kept, or 0 for none.
func (s *Versions) Use(ctx context.Context, number uint64) error {
	_, err := s.change(ctx, func(x *Index) error {
		if _, ok := x.Find(number); number != 0 && !ok {
			return fmt.Errorf("%w: %d", ErrNoVersion, number)
		}
		x.InForce = number
		return nil
	})
	return err
}

// Bundle returns the bundle of a version.
func (s *Versions) Bundle(ctx context.Context, number uint64) (*Bundle, error) {
	x, err := s.Index(ctx)
	if err != nil {
		return nil, err
	}
	v, ok := x.Find(number)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrNoVersion, number)
	}
	_, text, err := s.get(ctx, bundleKey(&v))
	if err != nil {
		return nil, fmt.Errorf("pushed: version %d: %w", number, err)
	}
	return Decode(text)
}

// Report says what a gateway runs.
func (s *Versions) Report(ctx context.Context, n *Node) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return s.KV.Put(ctx, []byte(nodePrefix+n.Name), text, nodeTTL)
}

// Nodes returns what the gateways said in the last minutes, by name.
func (s *Versions) Nodes(ctx context.Context) (nodes []Node, err error) {
	err = s.KV.Scan(ctx, []byte(nodePrefix), func(_, v []byte, _ time.Duration) error {
		var n Node
		if json.Unmarshal(v, &n) == nil { // foreign values are ignored
			nodes = append(nodes, n)
		}
		return nil
	})
	slices.SortFunc(nodes, func(a, b Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return nodes, err
}
