package acme

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"antirobot/store"
)

// Sealer encrypts stored values, since several machines read the store. The seal covers the name.
type Sealer interface {
	Seal(name string, plain []byte) []byte
	Open(name string, sealed []byte) ([]byte, error)
}

// storage is certmagic's storage over a store: keys are paths. Values begin with their time. Safe for concurrent use.
type storage struct {
	kv   store.KV
	seal Sealer
	now  func() time.Time

	mu     sync.Mutex
	locks  map[string]*lock
	closed bool // no more locks
}

var _ certmagic.Storage = (*storage)(nil)

const (
	filePrefix = "acme/file/"
	lockPrefix = "acme/lock/"
	stampBytes = 8
)

func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	stamped := binary.BigEndian.AppendUint64(nil, uint64(s.now().UnixNano()))
	if err := s.kv.Put(ctx, []byte(filePrefix+key), s.seal.Seal(key, append(stamped, value...)), 0); err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// Load also returns fs.ErrNotExist for a file whose key has left the ring.
func (s *storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.load(ctx, key)
	return value, err
}

func (s *storage) load(ctx context.Context, key string) (value []byte, at time.Time, err error) {
	sealed, err := s.kv.Get(ctx, nil, []byte(filePrefix+key))
	if errors.Is(err, store.ErrNotFound) {
		return nil, at, fs.ErrNotExist
	}
	if err != nil {
		return nil, at, fmt.Errorf("load %s: %w", key, err)
	}
	plain, err := s.seal.Open(key, sealed)
	if err != nil || len(plain) < stampBytes {
		return nil, at, fs.ErrNotExist
	}
	return plain[stampBytes:], time.Unix(0, int64(binary.BigEndian.Uint64(plain))), nil
}

// Delete implements certmagic.Storage; of a folder it deletes all files.
func (s *storage) Delete(ctx context.Context, key string) error {
	keys, err := s.below(ctx, key)
	if err != nil {
		return err
	}
	for _, k := range append(keys, key) {
		if err := s.kv.Delete(ctx, []byte(filePrefix+k)); err != nil {
			return fmt.Errorf("delete %s: %w", k, err)
		}
	}
	return nil
}

func (s *storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

func (s *storage) below(ctx context.Context, folder string) (keys []string, err error) {
	prefix := filePrefix
	if folder != "" {
		prefix += strings.TrimSuffix(folder, "/") + "/"
	}
	err = s.kv.Scan(ctx, []byte(prefix), func(k, _ []byte, _ time.Duration) error {
		keys = append(keys, string(k[len(filePrefix):]))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	slices.Sort(keys)
	return keys, nil
}

func (s *storage) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	files, err := s.below(ctx, folder)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fs.ErrNotExist
	}
	base := 0
	if folder != "" {
		base = len(strings.TrimSuffix(folder, "/")) + 1
	}
	var out []string
	for _, f := range files {
		for i := base; i < len(f); i++ {
			if f[i] == '/' && (recursive || !strings.Contains(f[base:i], "/")) {
				out = append(out, f[:i])
			}
		}
		if recursive || !strings.Contains(f[base:], "/") {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (s *storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	value, at, err := s.load(ctx, key)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: at, Size: int64(len(value)), IsTerminal: true}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return certmagic.KeyInfo{}, err
	}
	files, err := s.below(ctx, key)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	if len(files) == 0 {
		return certmagic.KeyInfo{}, fs.ErrNotExist
	}
	return certmagic.KeyInfo{Key: key}, nil
}

type lock struct {
	token  []byte
	cancel context.CancelFunc
	done   chan struct{}
}

// A dead gateway's lock ends after lockTTL; a live one extends its own.
const (
	lockTTL  = 2 * time.Minute
	lockBeat = 20 * time.Second
	lockPoll = 200 * time.Millisecond
)

func (s *storage) Lock(ctx context.Context, name string) error {
	token := make([]byte, 16)
	_, _ = rand.Read(token)
	key := []byte(lockPrefix + name)
	for {
		got, err := s.kv.Swap(ctx, key, nil, token, lockTTL)
		if err != nil {
			return fmt.Errorf("lock %s: %w", name, err)
		}
		if got {
			return s.hold(ctx, name, token)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

var errClosed = errors.New("closed")

// hold extends a lock until Unlock or close.
func (s *storage) hold(ctx context.Context, name string, token []byte) error {
	beat, cancel := context.WithCancel(context.Background())
	l := &lock{token: token, cancel: cancel, done: make(chan struct{})}
	go s.extend(beat, []byte(lockPrefix+name), l)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.locks[name] = l
	}
	s.mu.Unlock()
	if !closed {
		return nil
	}
	return errors.Join(fmt.Errorf("lock %s: %w", name, errClosed), s.release(context.WithoutCancel(ctx), name, l))
}

func (s *storage) extend(ctx context.Context, key []byte, l *lock) {
	defer close(l.done)
	store.Every(ctx, lockBeat, func() {
		if held, err := s.kv.Swap(ctx, key, l.token, l.token, lockTTL); err == nil && !held {
			l.cancel() // it expired while the store was away
		}
	})
}

func (s *storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.locks[name]
	delete(s.locks, name)
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("unlock %s: it is not locked here", name)
	}
	return s.release(ctx, name, l)
}

// release ends a lock that is still ours.
func (s *storage) release(ctx context.Context, name string, l *lock) error {
	l.cancel()
	<-l.done
	if _, err := s.kv.Swap(ctx, []byte(lockPrefix+name), l.token, l.token, time.Millisecond); err != nil {
		return fmt.Errorf("unlock %s: %w", name, err)
	}
	return nil
}

const closeWait = 2 * time.Second

// close releases all locks, which certmagic holds through its retries.
func (s *storage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	s.mu.Lock()
	held := s.locks
	s.locks, s.closed = map[string]*lock{}, true
	s.mu.Unlock()
	var errs []error
	for name, l := range held {
		errs = append(errs, s.release(ctx, name, l))
	}
	return errors.Join(errs...)
}
