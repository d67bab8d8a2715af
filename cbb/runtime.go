package cbb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/store"
)

// The errors of run-time entries that callers distinguish.
var (
	ErrBadEntry = errors.New("bad entry")
	ErrNoEntry  = errors.New("no such entry")
	ErrFull     = errors.New("too many run-time entries")
)

const (
	runtimePrefix = "cbb/entry/" // of keys in the store
	feedTopic     = "lists"
	listAPI       = "api"            // Entry.List of run-time entries
	rescanEvery   = 5 * time.Minute  // even if the feed is silent
	sweepEvery    = 30 * time.Second // entries end exactly; this only frees memory
	storeTimeout  = 10 * time.Second
	maxService    = 128
)

// stored is a run-time entry as the store keeps it.
type stored struct {
	Flag    string `json:"flag"`
	Text    string `json:"text"`
	Service string `json:"service,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Until   int64  `json:"until,omitempty"` // unix nanoseconds by the store's clock, 0: forever
	Made    int64  `json:"made,omitempty"`  // likewise: of two with one key the later holds
}

// Add makes a run-time entry on a list: an address, a CIDR, a range or kind:id, for all services or one. A ttl of 0
// means forever. The entry is durable and in force when Add returns nil, and other nodes follow. An existing entry is
// replaced. Errors: ErrBadEntry, ErrTooWide (block and ban), ErrFull, or the store's.
func (l *Lists) Add(ctx context.Context, list Flag, entry string, ttl time.Duration, reason, service string) error {
	it, key, err := runtimeKey(list, entry, service)
	if err != nil {
		return err
	}
	if ttl < 0 {
		return fmt.Errorf("%w: negative ttl", ErrBadEntry)
	}
	if list != White && !l.config().AllowWide && it.wide() {
		return fmt.Errorf("%q: %w", entry, ErrTooWide)
	}
	now := l.now()
	e := &Entry{List: listAPI, Text: it.String(), Reason: cleanReason(reason), Flag: list, Service: service, Own: true}
	if it.subject.Kind != identity.KindNone {
		e.Text = entry
	}
	if ttl > 0 {
		e.Until = time.Unix(0, now.Add(ttl).UnixNano())
	}
	l.runMu.Lock()
	defer l.runMu.Unlock()
	l.skew()
	item := &runtimeItem{entry: e, what: it, made: l.madeAfter(string(key), now)}
	val, err := l.encode(item)
	if err != nil {
		return fmt.Errorf("add entry: %w", err)
	}
	if n := l.over.size(); n >= l.bounds.runtime {
		l.over.sweep(now)
		if n = l.over.size(); n >= l.bounds.runtime && !l.over.holds(string(key)) {
			return fmt.Errorf("%w: %d", ErrFull, n)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := l.kv.Put(ctx, key, val, ttl); err != nil {
		return fmt.Errorf("add entry: %w", err)
	}
	l.over.set(string(key), item)
	delete(l.gone, string(key))
	l.note(string(key))
	l.announce(ctx, key)
	return nil
}

// Remove removes a run-time entry from a list. It returns ErrNoEntry if there is none; entries of files, URLs and the
// configuration can't be removed.
func (l *Lists) Remove(ctx context.Context, list Flag, entry, service string) error {
	_, key, err := runtimeKey(list, entry, service)
	if err != nil {
		return err
	}
	l.runMu.Lock()
	defer l.runMu.Unlock()
	if !l.over.holds(string(key)) {
		return fmt.Errorf("%q: %w", entry, ErrNoEntry)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := l.takeOut(ctx, string(key)); err != nil {
		return fmt.Errorf("remove entry: %w", err)
	}
	l.over.remove(string(key))
	l.note(string(key))
	l.announce(ctx, key)
	return nil
}

// List returns the run-time entries of a list that are in force, in a stable order.
func (l *Lists) List(list Flag) []Entry { return l.over.list(list, l.now()) }

// announce tells the other nodes that a key changed. The change is already durable and they scan every five minutes, so
// a failing feed only delays it.
func (l *Lists) announce(ctx context.Context, key []byte) {
	if err := l.feed.Append(ctx, feedTopic, key); err != nil {
		l.storeFailed(fmt.Errorf("announce entry: %w", err))
		l.log.Warn().Err(err).Msg("other nodes learn of a list entry only at their next scan")
	}
}

// runtimeKey parses an entry and returns its key in the store, the same for every spelling.
func runtimeKey(list Flag, entry, service string) (item, []byte, error) {
	if list > White {
		return item{}, nil, fmt.Errorf("%w: %v", ErrBadEntry, list)
	}
	if len(entry) > maxLine || len(service) > maxService || strings.Contains(service, "/") {
		return item{}, nil, fmt.Errorf("%w: too long, or a slash in the service", ErrBadEntry)
	}
	it, err := parseItem(entry)
	if err != nil {
		return item{}, nil, fmt.Errorf("%w: %q: %w", ErrBadEntry, printable(entry), err)
	}
	return it, []byte(runtimePrefix + list.String() + "/" + service + "/" + it.String()), nil
}

// String returns the canonical spelling of an item.
func (it *item) String() string {
	switch {
	case it.subject.Kind != identity.KindNone:
		return it.subject.String()
	case it.prefix.IsValid() && it.prefix.IsSingleIP():
		return it.lo.String()
	case it.prefix.IsValid():
		return it.prefix.String()
	default:
		return it.lo.String() + "-" + it.hi.String()
	}
}

func (s *stored) entry(f Flag, skew time.Duration) *Entry {
	e := &Entry{List: listAPI, Text: s.Text, Reason: s.Reason, Flag: f, Service: s.Service, Own: true}
	if s.Until != 0 {
		e.Until = time.Unix(0, s.Until).Add(-skew)
	}
	return e
}

// encode returns what the store keeps for an item.
func (l *Lists) encode(it *runtimeItem) ([]byte, error) {
	e, skew := it.entry, int64(l.skew())
	s := stored{Flag: e.Flag.String(), Text: e.Text, Service: e.Service, Reason: e.Reason, Made: it.made + skew}
	if !e.Until.IsZero() {
		s.Until = e.Until.UnixNano() + skew
	}
	return json.Marshal(s)
}

func (o *overlay) holds(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.items[key]
	return ok
}

// decodeStored reads what the store has under a key; another node wrote it, so nothing in it is trusted. An item
// without an entry means that it was removed.
func decodeStored(key, val []byte, skew time.Duration) (*runtimeItem, error) {
	var s stored
	if err := json.Unmarshal(val, &s); err != nil {
		return nil, fmt.Errorf("stored entry: %w", err)
	}
	if s.Flag == flagGone {
		return &runtimeItem{made: s.Made - int64(skew)}, nil
	}
	f, err := ParseFlag(s.Flag)
	if err != nil {
		return nil, fmt.Errorf("stored entry: %w", err)
	}
	it, want, err := runtimeKey(f, s.Text, s.Service)
	if err != nil {
		return nil, fmt.Errorf("stored entry: %w", err)
	}
	if !bytes.Equal(key, want) {
		return nil, fmt.Errorf("stored entry: %q is not the key of %q", printable(string(key)), printable(s.Text))
	}
	made := s.Made
	if made != 0 {
		made -= int64(skew)
	}
	return &runtimeItem{entry: s.entry(f, skew), what: it, made: made}, nil
}

// follow keeps the run-time entries in sync with the store until ctx ends: it notes the feed's end, scans, and follows.
func (l *Lists) follow(ctx context.Context) {
	wait := time.Second
	for ctx.Err() == nil {
		err := l.followOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, errRescan):
			wait = time.Second
			continue
		case errors.Is(err, store.ErrClosed):
			return
		case errors.Is(err, store.ErrGap):
			// A feed too short for its writers must not make us spin: wait, then scan.
		default:
			l.storeFailed(err)
			l.log.Warn().Err(err).Msg("following list entries")
		}
		if !store.Pause(ctx, wait) {
			return
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// errRescan says that all is well and it is time for the next scan.
var errRescan = errors.New("time to scan")

// followOnce scans and then follows until it is time for the next scan.
func (l *Lists) followOnce(ctx context.Context) error {
	pos, err := l.feed.Position(ctx, feedTopic)
	if err != nil {
		return fmt.Errorf("feed position: %w", err)
	}
	if pos == "" {
		pos = "0" // "" would skip what comes between here and Follow
	}
	if err := l.scan(ctx); err != nil {
		return err
	}
	l.storeFailed(nil)
	l.local.Load().Stamp()
	fctx, cancel := context.WithTimeout(ctx, rescanEvery)
	defer cancel()
	err = l.feed.Follow(fctx, feedTopic, pos, func(_ string, msg []byte) error { return l.changed(fctx, msg) })
	if fctx.Err() != nil {
		return errRescan
	}
	return fmt.Errorf("follow list entries: %w", err)
}

// scan replaces the run-time entries by what the store has. What a shared store has in an older version, or lacks
// although nobody removed it, is written back.
func (l *Lists) scan(ctx context.Context) error {
	l.runMu.Lock()
	defer l.runMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	live := map[string]struct{}{}
	limit, over, skew := l.bounds.runtime, 0, l.skew()
	var older []string
	err := store.ScanKept(ctx, l.kv, []byte(runtimePrefix), func(k, v []byte, _ time.Duration) error {
		it, err := decodeStored(k, v, skew)
		if err != nil {
			l.log.Warn().Err(err).Msg("passing over a list entry")
			return nil
		}
		if len(live) >= limit {
			over++
			return nil
		}
		live[string(k)] = struct{}{}
		if l.hear(string(k), it) {
			older = append(older, string(k))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan list entries: %w", err)
	}
	if over > 0 {
		l.log.Error().Int("ignored", over).Int("max_runtime", limit).Msg("the store has more list entries than max_runtime")
	}
	if l.shared {
		return l.restore(ctx, live, older)
	}
	l.over.keep(live, l.horizon())
	return nil
}

func (o *overlay) same(key string, e *Entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	it, ok := o.items[key]
	return ok && e != nil && it.entry.Text == e.Text && it.entry.Reason == e.Reason && it.entry.Until.Equal(e.Until)
}

// changed brings one key up to date. The message is only a hint: the store is read, so that late and repeated messages
// do no harm.
func (l *Lists) changed(ctx context.Context, key []byte) error {
	switch {
	case string(key) == messageScan:
		return errRescan
	case !bytes.HasPrefix(key, []byte(runtimePrefix)):
		return nil
	}
	l.runMu.Lock()
	defer l.runMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	val, err := l.kv.Get(ctx, nil, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		l.over.remove(string(key))
		return nil
	case err != nil:
		return fmt.Errorf("read list entry: %w", err)
	}
	it, err := decodeStored(key, val, l.skew())
	if err != nil {
		l.log.Warn().Err(err).Msg("passing over a list entry")
		return nil
	}
	if it.entry != nil && l.over.size() >= l.bounds.runtime && !l.over.holds(string(key)) {
		l.log.Error().Int("max_runtime", l.bounds.runtime).Msg("no room for a list entry of another node")
		return nil
	}
	l.hear(string(key), it)
	return nil
}
