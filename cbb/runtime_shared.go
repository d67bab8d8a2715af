package cbb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"antirobot/store"
)

// Gateways that share a store follow two rules: of the entries with one key the one made last holds, and an entry that
// is removed leaves a mark for goneFor. So whatever a shared store lacks was lost there, and is written back by the
// gateways that know it.

const (
	flagGone    = "gone"             // of a mark, in place of a list's name
	goneFor     = 7 * 24 * time.Hour // a gateway's log of the entries is not read if it is older
	messageScan = "cbb/scan"         // in the feed: entries were written back, so scan
	endsSoon    = 10 * time.Second   // remaining time below which an entry is not written back
)

// goneEntry is the mark of an entry that was removed.
type goneEntry struct {
	made  int64
	until time.Time
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

// horizon is the time before which whatever has ended may be forgotten.
func (rt *runtimeEntries) horizon() time.Time { return store.Horizon(rt.kv, rt.now()) }

// sweep forgets what has ended.
func (rt *runtimeEntries) sweep() {
	rt.runMu.Lock()
	defer rt.runMu.Unlock()
	rt.skew()
	rt.over.sweep(rt.horizon())
}

// madeAfter returns when a change of a key is made: now, or just after the stamp of a clock that is ahead.
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

// takeOut removes an entry from the store.
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

func (rt *runtimeEntries) encodeGone(g goneEntry) []byte {
	val, err := json.Marshal(stored{Flag: flagGone, Made: g.made + int64(rt.skew())})
	if err != nil {
		panic("BUG: mark of a list entry: " + err.Error())
	}
	return val
}

// hear takes over what the store has under a key, and reports whether this gateway knows something newer. The caller
// holds runMu.
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

// restore writes what a scan did not find, or found in an older version. The caller holds runMu.
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

// known returns what the store should have under a key, and for how long; false: nothing that still matters.
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

// openLog reads what the previous run of this gateway knew, and logs from then on what changes.
func (rt *runtimeEntries) openLog() {
	if !rt.shared || rt.logFile == "" {
		return
	}
	rt.readLog()
	rt.local.Store(store.OpenLog(rt.logFile, rt.now, rt.log, rt.eachLogged))
}

// note logs what is known under a key. The caller holds runMu.
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

// readLog loads what the previous run of this gateway knew. Times are those of the store's clock as seen then.
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
		rt.log.Warn().Int("places", read.Damaged).Msg("the local log of the shared store's list entries is damaged: skipped what can't be read")
	}
}
