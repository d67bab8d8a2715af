package cbb

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a KV and Feed made of two maps, which can be made to fail.
type fakeStore struct {
	mu   sync.Mutex
	now  func() time.Time
	vals map[string]fakeVal
	msgs [][]byte
	wake chan struct{}
	fail error
	gap  bool // the next Follow returns ErrGap
}

type fakeVal struct {
	val   []byte
	until time.Time
}

func newFakeStore() *fakeStore {
	return &fakeStore{now: time.Now, vals: map[string]fakeVal{}, wake: make(chan struct{})}
}

func (f *fakeStore) broken(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fakeStore) Get(_ context.Context, dst, key []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return dst, f.fail
	}
	v, ok := f.vals[string(key)]
	if !ok || !v.until.IsZero() && !f.now().Before(v.until) {
		return dst, store.ErrNotFound
	}
	return append(dst, v.val...), nil
}

func (f *fakeStore) Put(_ context.Context, key, val []byte, ttl time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	v := fakeVal{val: bytes.Clone(val)}
	if ttl > 0 {
		v.until = f.now().Add(ttl)
	}
	f.vals[string(key)] = v
	return nil
}

func (f *fakeStore) Swap(context.Context, []byte, []byte, []byte, time.Duration) (bool, error) {
	return false, errors.New("not used")
}

func (f *fakeStore) Delete(_ context.Context, key []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	delete(f.vals, string(key))
	return nil
}

func (f *fakeStore) Scan(_ context.Context, prefix []byte, fn func(k, v []byte, ttl time.Duration) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	for k, v := range f.vals {
		if !strings.HasPrefix(k, string(prefix)) || !v.until.IsZero() && !f.now().Before(v.until) {
			continue
		}
		if err := fn([]byte(k), v.val, 0); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeStore) Append(_ context.Context, _ string, msg []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.msgs = append(f.msgs, bytes.Clone(msg))
	close(f.wake)
	f.wake = make(chan struct{})
	return nil
}

func (f *fakeStore) Position(context.Context, string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strconv.Itoa(len(f.msgs)), f.fail
}

func (f *fakeStore) Follow(ctx context.Context, _, from string, fn func(string, []byte) error) error {
	pos, err := strconv.Atoi(from)
	if err != nil {
		return err
	}
	for {
		f.mu.Lock()
		if f.gap {
			f.gap = false
			f.mu.Unlock()
			return store.ErrGap
		}
		todo, wake := slices.Clone(f.msgs[pos:]), f.wake
		f.mu.Unlock()
		for _, m := range todo {
			pos++
			if err := fn(strconv.Itoa(pos), m); err != nil {
				return err
			}
		}
		if len(todo) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// roundTrip is a transport made from a function: no sockets, so that it works in a synctest bubble.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// config is the defaults without built-in crawlers, changed by f.
func config(f func(*Config)) Config {
	c := DefaultConfig()
	c.Crawlers.Builtin = nil
	if f != nil {
		f(&c)
	}
	return c
}

// open makes Lists that are closed with the test.
func open(t testing.TB, cfg Config, change func(*Deps)) *Lists {
	t.Helper()
	fs := newFakeStore()
	b := defaultBounds()
	b.dnsCache = 512 << 10 // of which the race detector has to mark every byte
	d := Deps{KV: fs, Feed: fs, Log: zerolog.Nop(), Resolver: noDNS{}, bounds: &b}
	if change != nil {
		change(&d)
	}
	l, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func closeLists(t testing.TB, l *Lists) {
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

type noDNS struct{}

func (noDNS) LookupAddr(context.Context, string) ([]string, error) { return nil, errors.New("no dns") }

func (noDNS) LookupHost(context.Context, string) ([]string, error) { return nil, errors.New("no dns") }

// newRequest returns a View and an Identity as the gateway makes them. Headers are pairs of name and value.
func newRequest(addr, path string, headers ...string) (*request.View, *identity.Identity) {
	v := &request.View{At: time.Now(), Method: []byte("GET"), Path: []byte(path), Target: []byte(path)}
	for i := 0; i < len(headers); i += 2 {
		v.Fields = append(v.Fields, request.Field{Name: []byte(headers[i]), Value: []byte(headers[i+1])})
	}
	id := &identity.Identity{Addr: netip.MustParseAddr(addr), N: 1}
	id.Subjects[0] = identity.AddrSubject(id.Addr)
	return v, id
}

// said returns what Lookup found as "ownblock white block ban", each the list that matched, or "-".
func said(l *Lists, addr, service string) string {
	v, id := newRequest(addr, "/")
	var m Match
	l.Lookup(&m, v, id, service)
	return m.names()
}

func (m *Match) names() string {
	var out []string
	for i := range slots {
		if e := *m.at(i); e != nil {
			out = append(out, e.List)
		} else {
			out = append(out, "-")
		}
	}
	return strings.Join(out, " ")
}
