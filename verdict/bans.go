package verdict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/bans"
	"antirobot/verdict/replicate"
)

const (
	banTopic = "bans"
	// endsSoon is the remaining time below which a record is not written back: the store may have been right to forget it.
	endsSoon = 10 * time.Second
)

// The kinds of records in the feed of bans.
const (
	recordBan  = 'b'
	recordScan = 'r' // bans that the store had lost were written back: scan
)

// LiveBans makes, lifts and finds live bans, in memory, in the store, and at other nodes. Safe for concurrent use.
type LiveBans struct {
	*clock
	table   *bans.Table
	writes  *behind.Writer[bans.Key]
	onBan   func(b *bans.Ban) // a ban was made here
	onOther func(b *bans.Ban) // another node made a ban
	losses  *store.Losses
	log     zerolog.Logger
	local   *atomic.Pointer[store.LocalLog]
	bad     *metrics.Counter
	jumps   uint64 // of the clock, as far as they were handled
}

// Ban makes a ban, or replaces the one that the same source made for the same subject and service. If Ban returns a
// store error, the ban is nevertheless in force on this node, and the write is retried until it succeeds. ErrFull, or
// an error of Validate, means that there is no ban.
func (s *LiveBans) Ban(ctx context.Context, b bans.Ban) error {
	if err := s.make(&b); err != nil {
		return err
	}
	return s.writes.Now(ctx, b.Key())
}

// BanSoon is Ban, but does not wait for the store.
func (s *LiveBans) BanSoon(b bans.Ban) error {
	if err := s.make(&b); err != nil {
		return err
	}
	s.writes.Add(b.Key())
	return nil
}

func (s *LiveBans) make(b *bans.Ban) error {
	at, put := s.now(), s.table.Put
	if b.Made.IsZero() {
		b.Made, put = at, s.table.PutNew
	}
	if err := errors.Join(b.Validate(at)); err != nil {
		return fmt.Errorf("ban: %w", err)
	}
	if err := put(b, at.UnixNano()); err != nil {
		return fmt.Errorf("ban: %w", err)
	}
	s.logBan(b.Key())
	s.onBan(b)
	return nil
}

// Unban lifts the bans of a subject: those of one service; with an empty name, those that hold for all services; with
// "*", every one. It returns how many there were on this node. As for Ban, an error concerns the store only.
func (s *LiveBans) Unban(ctx context.Context, sub identity.Subject, service string) (n int, first error) {
	if s.Forgot() {
		if _, err := s.Recall(ctx, sub, service); err != nil {
			s.log.Warn().Err(err).Msg("a ban that memory had no room for may outlast its lifting")
		}
	}
	var keys []bans.Key
	// With a clock in doubt, a ban that has ended may come back into force.
	s.table.EachOf(sub, s.horizon().UnixNano(), func(b *bans.Ban) bool {
		if service == "*" || b.Service == service {
			keys = append(keys, b.Key())
		}
		return true
	})
	for _, k := range keys {
		if s.lift(k) {
			n++
		}
		if err := s.writes.Now(ctx, k); err != nil && first == nil {
			first = err
		}
	}
	return n, first
}

// lift lifts a ban regardless of when it was made: the clock of the node that made it may have been ahead of ours.
func (s *LiveBans) lift(k bans.Key) bool {
	b, ok := s.table.Get(k, s.horizon().UnixNano())
	if !ok {
		return false
	}
	made := max(s.now().UnixNano(), b.Made.UnixNano())
	if !s.st.Shared() {
		return s.table.Remove(k, made)
	}
	defer s.logBan(k)
	return s.table.Lift(k, made, false)
}

// BanFilter selects bans; the zero value selects all.
type BanFilter struct {
	Subject identity.Subject // of this subject
	Service string           // of this service, or of all services
	Limit   int              // at most this many; 0: no limit
}

// Bans returns the live bans that the filter selects, the newest first.
func (s *LiveBans) Bans(f BanFilter) []bans.Ban {
	var list []bans.Ban
	newest := func() {
		slices.SortFunc(list, func(a, b bans.Ban) int { return b.Made.Compare(a.Made) })
		if f.Limit > 0 && len(list) > f.Limit {
			list = list[:f.Limit]
		}
	}
	each := func(b *bans.Ban) bool {
		if f.Service == "" || b.Service == "" || b.Service == f.Service {
			list = append(list, *b)
		}
		if f.Limit > 0 && len(list) >= 4*f.Limit { // don't copy a million bans to show a hundred
			newest()
		}
		return true
	}
	if at := s.now().UnixNano(); f.Subject.Kind != identity.KindNone {
		s.table.EachOf(f.Subject, at, each)
	} else {
		s.table.Each(at, each)
	}
	newest()
	return slices.Clip(list)
}

// stored returns the ban of a key, and its record for the store.
func (s *LiveBans) stored(k bans.Key) (b bans.Ban, record []byte, known bool) {
	s.skewed(func(skew time.Duration) {
		if b, known = s.table.Get(k, s.horizon().UnixNano()); known {
			record = b.AppendValue(nil, skew)
		}
	})
	return b, record, known
}

// write writes the ban of a key to the store as memory has it, and tells the other nodes.
func (s *LiveBans) write(ctx context.Context, k bans.Key) error {
	key, at := k.AppendTo(nil), s.now()
	b, record, known := s.stored(k)
	if !known && !s.st.Shared() { // otherwise it has ended, in the store too
		if err := s.st.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete ban: %w", err)
		}
	}
	if !known || !b.Until.After(at) {
		return nil
	}
	if err := s.st.Put(ctx, key, record, b.Until.Sub(at)); err != nil {
		return fmt.Errorf("write ban: %w", err)
	}
	s.table.MarkStored(k, b.Made.UnixNano())
	if !s.st.Shared() {
		return nil
	}
	c := replicate.Writer(nil, s.skewNow())
	b.Code(c)
	if err := s.st.Append(ctx, banTopic, replicate.Append(nil, recordBan, c.Bytes())); err != nil {
		return fmt.Errorf("announce ban: %w", err)
	}
	return nil
}

// scan reads all bans from the store. If the store has an older version of a ban, or lacks it, it has lost the ban, which
// is then written again. A lifted ban leaves a record until it would have ended, so it does not look lost.
func (s *LiveBans) scan(ctx context.Context) error {
	s.table.BeginScan()
	err := store.ScanKept(ctx, s.st, []byte(bans.Prefix), func(k, v []byte, _ time.Duration) error {
		b, newer, err := s.take(k, v)
		switch {
		case err != nil:
			s.bad.Inc() // one broken record must not cost all bans
		case newer:
			s.writes.Add(b)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read bans: %w", err)
	}
	if s.st.Shared() {
		return s.restore(ctx)
	}
	return nil
}

// take takes over a ban from the store, and reports whether memory has a newer one.
func (s *LiveBans) take(key, val []byte) (k bans.Key, newer bool, err error) {
	s.skewed(func(skew time.Duration) {
		var b bans.Ban
		if b, err = bans.Parse(key, val, skew); err != nil {
			return
		}
		if k = b.Key(); s.st.Shared() || !s.writes.Pending(k) { // else it was lifted, and its deletion is pending
			newer = s.merge(&b, skew)
		}
	})
	return k, newer, err
}

// merge takes over another node's ban, and reports whether memory has a newer one.
func (s *LiveBans) merge(b *bans.Ban, skew time.Duration) (newer bool) {
	newer, changed := s.table.Merge(b, s.horizon().UnixNano())
	if !newer && !b.Lifted {
		s.onOther(b)
	}
	if l := s.local.Load(); changed && l != nil {
		l.Append(banRecord(b, skew))
	}
	return newer
}

// restore writes back the bans that the store once had and the scan did not find.
func (s *LiveBans) restore(ctx context.Context) error {
	lost := s.table.Missing(s.now().Add(endsSoon).UnixNano())
	if len(lost) == 0 {
		return nil
	}
	s.losses.Note("bans", len(lost))
	n, err := behind.Restore(ctx, lost, func(ctx context.Context, k bans.Key) (bool, error) {
		at := s.now()
		b, record, known := s.stored(k)
		if !known || !b.Until.After(at) {
			return false, nil
		}
		// Only if there is nothing there: what another node has written in the meantime is newer, or the same.
		wrote, err := s.st.Swap(ctx, k.AppendTo(nil), nil, record, b.Until.Sub(at))
		if err == nil {
			s.table.MarkStored(k, b.Made.UnixNano())
		}
		return wrote, err
	})
	if n > 0 {
		err = errors.Join(err, s.st.Append(ctx, banTopic, replicate.Append(nil, recordScan, nil)))
	}
	if err != nil {
		return fmt.Errorf("write bans back: %w", err)
	}
	return nil
}

// Forgot reports whether memory once had no room for a ban, so that the store may hold bans that memory does not.
func (s *LiveBans) Forgot() bool { return s.table.Evicted() > 0 }

// Recall reads a subject's bans from the store, those for all services and those for the named one, and returns how
// many of them memory did not have. It waits for the store.
func (s *LiveBans) Recall(ctx context.Context, sub identity.Subject, service string) (n int, err error) {
	services := []string{"", service}
	if service == "" {
		services = services[:1]
	}
	for _, source := range [...]bans.Source{bans.SourceAPI, bans.SourceProcessor} {
		for _, name := range services {
			k := bans.Key{Subject: sub, Source: source, Service: name}
			if _, live := s.table.Get(k, s.now().UnixNano()); live || s.writes.Pending(k) {
				continue
			}
			key := k.AppendTo(nil)
			val, err := s.st.Get(ctx, nil, key)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return n, fmt.Errorf("read ban: %w", err)
			}
			if b, err := bans.Parse(key, val, s.skewNow()); err != nil {
				s.bad.Inc()
			} else if !b.Lifted && b.Until.After(s.now()) {
				_, _, _ = s.take(key, val)
				n++
			}
		}
	}
	return n, nil
}

// heard handles one message of the feed.
func (s *LiveBans) heard(msg []byte) (err error) {
	ok := replicate.Each(msg, func(kind byte, record []byte) bool {
		switch kind {
		case recordScan:
			err = errScan
		case recordBan:
			s.skewed(func(skew time.Duration) {
				var b bans.Ban
				c := replicate.Reader(record, skew)
				if b.Code(c); !c.OK() || b.Validate(time.Time{}) != nil {
					err = bans.ErrMalformed
					return
				}
				s.merge(&b, skew)
			})
		}
		return err == nil
	})
	if !ok && err == nil {
		err = bans.ErrMalformed
	}
	return err
}

// settle handles a clock that went back: a ban made in what is now the future begins now, and lasts as long as it was
// meant to. Nodes that share a store tell each other the store's time, and don't need this.
func (s *LiveBans) settle() {
	k, ok := s.st.(store.Keeper)
	if !ok || s.st.Shared() {
		return
	}
	jumps := k.Jumps()
	if s.jumps == jumps {
		return
	}
	s.jumps = jumps
	for _, key := range s.table.Settle(s.now().UnixNano(), store.JumpLeast) {
		s.writes.Add(key)
	}
}

// align moves the bans when our clock was set: by the store's clock nothing has happened.
func (s *LiveBans) align() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if skew := store.Skew(s.st); skew != s.skew {
		s.table.Move(s.skew - skew)
		s.skew = skew
	}
}

func banRecord(b *bans.Ban, skew time.Duration) store.Logged {
	return store.Logged{Key: b.Key().AppendTo(nil), Val: b.AppendValue(nil, skew), Until: b.Until.Add(skew)}
}

// logBan logs a ban as memory has it.
func (s *LiveBans) logBan(k bans.Key) {
	l := s.local.Load()
	if l == nil {
		return
	}
	if b, _, known := s.stored(k); known {
		l.Append(banRecord(&b, s.skewNow()))
	}
}
