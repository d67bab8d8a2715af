package cbb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
)

// Errors of run-time entries.
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

// Gateways that share a store follow two rules: of the entries with one key the latest holds, and a removed entry
// leaves a mark for goneFor. So an entry that a shared store lacks was lost, and is written back by the gateways that
// know it.

const (
	flagGone    = "gone"             // of a mark, in place of a list's name
	goneFor     = 7 * 24 * time.Hour // a gateway's log of the entries is not read if it is older
	messageScan = "cbb/scan"         // in the feed: entries were written back, so scan
	endsSoon    = 10 * time.Second   // remaining time below which an entry is not written back
)

// runtimeEntries keeps the entries made over the API, in memory and in the store.
type runtimeEntries struct {
	kv     store.KV
	feed   store.Feed
	now    func() time.Time
	log    zerolog.Logger
	bounds bounds
	wide   func() bool // blocks and bans of any width are allowed
	over   *overlay

	shared  bool
	logFile string
	local   atomic.Pointer[store.LocalLog]
	losses  *store.Losses

	runMu    sync.Mutex           // orders changes of entries: the store first, then memory
	skewed   time.Duration        // how far the store's clock is ahead of ours, as applied to the entries
	gone     map[string]goneEntry // with a shared store: entries that were removed
	storeErr atomic.Pointer[error]
}

type stored struct {
	Flag    string `json:"flag"`
	Text    string `json:"text"`
	Service string `json:"service,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Until   int64  `json:"until,omitempty"` // unix nanoseconds by the store's clock, 0: forever
	Made    int64  `json:"made,omitempty"`  // by the same clock: of two with one key the later holds
}

func (s *stored) entry(f Flag, skew time.Duration) *Entry {
	e := &Entry{List: listAPI, Text: s.Text, Reason: s.Reason, Flag: f, Service: s.Service, Own: true}
	if s.Until != 0 {
		e.Until = time.Unix(0, s.Until).Add(-skew)
	}
	return e
}

type goneEntry struct {
	made  int64
	until time.Time
}

// Add makes a run-time entry on a list: an address, a CIDR, a range or kind:id, for all services or one. A ttl of 0
// means forever. The entry is durable and in force when Add returns nil, and other nodes follow. An existing entry is
// replaced. Errors: ErrBadEntry, ErrTooWide (block and ban), ErrFull, or the store's.
func (l *Lists) Add(ctx context.Context, list Flag, entry string, ttl time.Duration, reason, service string) error {
	return l.live.add(ctx, list, entry, ttl, reason, service)
}

// Remove removes a run-time entry from a list. It returns ErrNoEntry if there is none; entries of files, URLs and the
// configuration can't be removed.
func (l *Lists) Remove(ctx context.Context, list Flag, entry, service string) error {
	return l.live.remove(ctx, list, entry, service)
}

// List returns the run-time entries of a list that are in force, in a stable order.
func (l *Lists) List(list Flag) []Entry { return l.live.over.list(list, l.now()) }

func (rt *runtimeEntries) add(
	ctx context.Context, list Flag, entry string, ttl time.Duration, reason, service string,
) error {
	it, key, err := runtimeKey(list, entry, service)
	if err != nil {
		return err
	}
	if ttl < 0 {
		return fmt.Errorf("%w: negative ttl", ErrBadEntry)
	}
	if list != White && !rt.wide() && it.wide() {
		return fmt.Errorf("%q: %w", entry, ErrTooWide)
	}
	now := rt.now()
	e := &Entry{List: listAPI, Text: it.String(), Reason: cleanReason(reason), Flag: list, Service: service, Own: true}
	if it.subject.Kind != identity.KindNone {
		e.Text = entry
	}
	if ttl > 0 {
		e.Until = time.Unix(0, now.Add(ttl).UnixNano())
	}
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	rt.skew()
	item := &runtimeItem{entry: e, what: it, made: rt.madeAfter(string(key), now)}
	val, err := rt.encode(item)
	if err != nil {
		return fmt.Errorf("add entry: %w", err)
	}
	if n := rt.over.size(); n >= rt.bounds.runtime {
		rt.over.sweep(now)
		if n = rt.over.size(); n >= rt.bounds.runtime && !rt.over.holds(string(key)) {
			return fmt.Errorf("%w: %d", ErrFull, n)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := rt.kv.Put(ctx, key, val, ttl); err != nil {
		return fmt.Errorf("add entry: %w", err)
	}
	rt.over.set(string(key), item)
	delete(rt.gone, string(key))
	rt.note(string(key))
	rt.announce(ctx, key)
	return nil
}

func (rt *runtimeEntries) remove(ctx context.Context, list Flag, entry, service string) error {
	_, key, err := runtimeKey(list, entry, service)
	if err != nil {
		return err
	}
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	if !rt.over.holds(string(key)) {
		return fmt.Errorf("%q: %w", entry, ErrNoEntry)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := rt.takeOut(ctx, string(key)); err != nil {
		return fmt.Errorf("remove entry: %w", err)
	}
	rt.over.remove(string(key))
	rt.note(string(key))
	rt.announce(ctx, key)
	return nil
}

// announce publishes a changed key. The change is already durable and other nodes scan every five minutes, so a
// failing feed only delays it.
func (rt *runtimeEntries) announce(ctx context.Context, key []byte) {
	if err := rt.feed.Append(ctx, feedTopic, key); err != nil {
		rt.storeFailed(fmt.Errorf("announce entry: %w", err))
		rt.log.Warn().Err(err).Msg("other nodes learn of a list entry only at their next scan")
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

func (rt *runtimeEntries) encode(it *runtimeItem) ([]byte, error) {
	e, skew := it.entry, int64(rt.skew())
	s := stored{Flag: e.Flag.String(), Text: e.Text, Service: e.Service, Reason: e.Reason, Made: it.made + skew}
	if !e.Until.IsZero() {
		s.Until = e.Until.UnixNano() + skew
	}
	return json.Marshal(s)
}

func (rt *runtimeEntries) encodeGone(g goneEntry) []byte {
	val, err := json.Marshal(stored{Flag: flagGone, Made: g.made + int64(rt.skew())})
	if err != nil {
		panic("BUG: mark of a list entry: " + err.Error())
	}
	return val
}

// decodeStored reads a stored value; another node wrote it, so nothing in it is trusted. An item without an entry was
// removed.
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

func (rt *runtimeEntries) storeFailed(err error) {
	if err == nil {
		rt.storeErr.Store(nil)
		return
	}
	rt.storeErr.Store(&err)
}

// follow keeps the entries in sync with the store until ctx ends.
func (rt *runtimeEntries) follow(ctx context.Context) {
	wait := time.Second
	for ctx.Err() == nil {
		err := rt.followOnce(ctx)
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
			rt.storeFailed(err)
			rt.log.Warn().Err(err).Msg("following list entries")
		}
		if !store.Pause(ctx, wait) {
			return
		}
		wait = min(2*wait, 10*time.Second)
	}
}

var errRescan = errors.New("time to scan")

func (rt *runtimeEntries) followOnce(ctx context.Context) error {
	pos, err := rt.feed.Position(ctx, feedTopic)
	if err != nil {
		return fmt.Errorf("feed position: %w", err)
	}
	if pos == "" {
		pos = "0" // "" would skip what comes between here and Follow
	}
	if err := rt.scan(ctx); err != nil {
		return err
	}
	rt.storeFailed(nil)
	rt.local.Load().Stamp()
	fctx, cancel := context.WithTimeout(ctx, rescanEvery)
	defer cancel()
	err = rt.feed.Follow(fctx, feedTopic, pos, func(_ string, msg []byte) error { return rt.changed(fctx, msg) })
	if fctx.Err() != nil {
		return errRescan
	}
	return fmt.Errorf("follow list entries: %w", err)
}

// scan replaces the entries by those of the store. What a shared store lost, or has in an older version, is written
// back.
func (rt *runtimeEntries) scan(ctx context.Context) error {
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	live := map[string]struct{}{}
	limit, over, skew := rt.bounds.runtime, 0, rt.skew()
	var older []string
	err := store.ScanKept(ctx, rt.kv, []byte(runtimePrefix), func(k, v []byte, _ time.Duration) error {
		it, err := decodeStored(k, v, skew)
		if err != nil {
			rt.log.Warn().Err(err).Msg("passing over a list entry")
			return nil
		}
		if len(live) >= limit {
			over++
			return nil
		}
		live[string(k)] = struct{}{}
		if rt.hear(string(k), it) {
			older = append(older, string(k))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("scan list entries: %w", err)
	}
	if over > 0 {
		rt.log.Error().
			Int("ignored", over).
			Int("max_runtime", limit).
			Msg("the store has more list entries than max_runtime")
	}
	if rt.shared {
		return rt.restore(ctx, live, older)
	}
	rt.over.keep(live, rt.horizon())
	return nil
}

// changed brings one key up to date. The message is only a hint: the store is read, so that late and repeated
// messages do no harm.
func (rt *runtimeEntries) changed(ctx context.Context, key []byte) error {
	switch {
	case string(key) == messageScan:
		return errRescan
	case !bytes.HasPrefix(key, []byte(runtimePrefix)):
		return nil
	}
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	val, err := rt.kv.Get(ctx, nil, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		rt.over.remove(string(key))
		return nil
	case err != nil:
		return fmt.Errorf("read list entry: %w", err)
	}
	it, err := decodeStored(key, val, rt.skew())
	if err != nil {
		rt.log.Warn().Err(err).Msg("passing over a list entry")
		return nil
	}
	if it.entry != nil && rt.over.size() >= rt.bounds.runtime && !rt.over.holds(string(key)) {
		rt.log.Error().Int("max_runtime", rt.bounds.runtime).Msg("no room for a list entry of another node")
		return nil
	}
	rt.hear(string(key), it)
	return nil
}

// hear takes over a stored item, and reports whether this gateway knows something newer. The caller holds runMu.
func (rt *runtimeEntries) hear(key string, it *runtimeItem) (older bool) {
	known := rt.over.item(key)
	if g, ok := rt.gone[key]; rt.shared && (ok && g.made > it.made || known != nil && known.made > it.made) {
		return true
	}
	if it.entry == nil {
		rt.over.remove(key)
		if was, ok := rt.gone[key]; ok && was.made == it.made {
			return false
		}
		if len(rt.gone) < rt.bounds.runtime {
			rt.gone[key] = goneEntry{made: it.made, until: rt.now().Add(goneFor)}
			rt.note(key)
		}
		return false
	}
	delete(rt.gone, key)
	if !rt.over.same(key, it.entry) || known.made != it.made {
		rt.over.set(key, it)
		rt.note(key)
	}
	return false
}

// skew is how far the store's clock is ahead of ours. The caller holds runMu.
func (rt *runtimeEntries) skew() time.Duration {
	by := store.Skew(rt.kv)
	if moved := rt.skewed - by; moved != 0 { // this machine's clock was set: by the store's nothing has happened
		rt.skewed = by
		rt.over.move(moved)
		for key, g := range rt.gone {
			rt.gone[key] = goneEntry{made: g.made + int64(moved), until: g.until.Add(moved)}
		}
	}
	return by
}

func (rt *runtimeEntries) horizon() time.Time { return store.Horizon(rt.kv, rt.now()) }

func (rt *runtimeEntries) sweep() {
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	rt.skew()
	rt.over.sweep(rt.horizon())
}

// madeAfter returns the time stamp of a change: now, or just after that of a clock that is ahead.
func (rt *runtimeEntries) madeAfter(key string, now time.Time) int64 {
	made := now.UnixNano()
	if it := rt.over.item(key); it != nil {
		made = max(made, it.made+1)
	}
	if g, ok := rt.gone[key]; ok {
		made = max(made, g.made+1)
	}
	return made
}

func (rt *runtimeEntries) takeOut(ctx context.Context, key string) error {
	if !rt.shared {
		return rt.kv.Delete(ctx, []byte(key))
	}
	now := rt.now()
	g := goneEntry{made: rt.madeAfter(key, now), until: now.Add(goneFor)}
	if it := rt.over.item(key); it != nil && !it.entry.Until.IsZero() && it.entry.Until.Before(g.until) {
		g.until = it.entry.Until
	}
	if err := rt.kv.Put(ctx, []byte(key), rt.encodeGone(g), max(g.until.Sub(now), time.Millisecond)); err != nil {
		return err
	}
	rt.gone[key] = g
	return nil
}

// restore writes back entries that a scan missed, or found in an older version. The caller holds runMu.
func (rt *runtimeEntries) restore(ctx context.Context, met map[string]struct{}, older []string) error {
	now := rt.now()
	for key, g := range rt.gone {
		if !g.until.After(now) {
			delete(rt.gone, key)
		}
	}
	for _, key := range older {
		val, left, ok := rt.known(key, now)
		if !ok {
			continue
		}
		if err := rt.kv.Put(ctx, []byte(key), val, left); err != nil {
			return fmt.Errorf("write list entries back: %w", err)
		}
	}
	lost := 0
	back := func(key string) error {
		if _, ok := met[key]; ok {
			return nil
		}
		val, left, ok := rt.known(key, now)
		if !ok {
			return nil
		}
		wrote, err := rt.kv.Swap(ctx, []byte(key), nil, val, left)
		if wrote {
			lost++
		}
		return err
	}
	var err error
	for _, key := range rt.over.keys() {
		if err = back(key); err != nil {
			break
		}
	}
	for key := range rt.gone {
		if err == nil {
			err = back(key)
		}
	}
	rt.losses.Note("list entries", lost)
	if lost+len(older) > 0 {
		err = errors.Join(err, rt.feed.Append(ctx, feedTopic, []byte(messageScan)))
	}
	if err != nil {
		return fmt.Errorf("write list entries back: %w", err)
	}
	return nil
}

// known returns the right value for a key, and its remaining time; false: it no longer matters.
func (rt *runtimeEntries) known(key string, now time.Time) (val []byte, left time.Duration, ok bool) {
	it := rt.over.item(key)
	if it == nil {
		g, ok := rt.gone[key]
		return rt.encodeGone(g), g.until.Sub(now), ok && g.until.Sub(now) > endsSoon
	}
	if !it.entry.Until.IsZero() {
		if left = it.entry.Until.Sub(now); left < endsSoon {
			return nil, 0, false
		}
	}
	val, err := rt.encode(it)
	return val, left, err == nil
}

// openLog restores the previous run's knowledge, and logs changes from then on.
func (rt *runtimeEntries) openLog() {
	if !rt.shared || rt.logFile == "" {
		return
	}
	rt.readLog()
	rt.local.Store(store.OpenLog(rt.logFile, rt.now, rt.log, rt.eachLogged))
}

// note logs a key. The caller holds runMu.
func (rt *runtimeEntries) note(key string) {
	if log := rt.local.Load(); log != nil {
		if r, ok := rt.record(key, rt.now()); ok {
			log.Append(r)
		}
	}
}

func (rt *runtimeEntries) record(key string, now time.Time) (r store.Logged, ok bool) {
	val, left, ok := rt.known(key, now)
	r = store.Logged{Key: []byte(key), Val: val}
	if left > 0 {
		r.Until = now.Add(left)
	}
	return r, ok
}

func (rt *runtimeEntries) eachLogged(put func(store.Logged) error) error {
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	now := rt.now()
	keys := rt.over.keys()
	for key := range rt.gone {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if r, ok := rt.record(key, now); ok {
			if err := put(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLog loads the previous run's knowledge. Times are of the store's clock as seen then.
func (rt *runtimeEntries) readLog() {
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	now := rt.now()
	read, err := store.ReadLog(rt.logFile, func(store.Logged) error { return nil })
	if err == nil && now.Sub(read.At) > goneFor {
		rt.log.Warn().Time("of", read.At).Msg("the local log of the shared store's list entries is too old to be used")
		return
	}
	if err == nil {
		read, err = store.ReadLog(rt.logFile, func(r store.Logged) error {
			if !r.Until.IsZero() && !r.Until.After(now) {
				return nil
			}
			it, err := decodeStored(r.Key, r.Val, rt.skew())
			if err != nil {
				rt.log.Warn().Err(err).Msg("passing over a list entry")
				return nil
			}
			rt.hear(string(r.Key), it)
			return nil
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		rt.log.Warn().Err(err).Msg("the local log of the shared store's list entries can't be read")
	}
	if read.Damaged > 0 {
		rt.log.Warn().
			Int("places", read.Damaged).
			Msg("the local log of the shared store's list entries is damaged: skipped what can't be read")
	}
}
