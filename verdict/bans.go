package verdict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/bans"
)

const banTopic = "bans"

// The first byte of a feed message.
const (
	saidBan   = 'b' // length of the key (uvarint), key, value
	saidUnban = 'u' // made (8 bytes, unix nanoseconds), key
	saidScan  = 'r' // bans that the store had lost were written back: scan
)

// Ban makes a ban, or replaces the one that the same source made for the same subject and service. If Ban returns a
// store error, the ban is nevertheless in force on this node, and the write is retried until it succeeds. ErrFull, or
// an error of Validate, means that there is no ban.
func (c *Cacher) Ban(ctx context.Context, b bans.Ban) error {
	if err := c.putBan(&b); err != nil {
		return err
	}
	return c.banWrites.Now(ctx, b.Key())
}

// BanSoon is Ban, but does not wait for the store.
func (c *Cacher) BanSoon(b bans.Ban) error {
	if err := c.putBan(&b); err != nil {
		return err
	}
	c.banWrites.Add(b.Key())
	return nil
}

func (c *Cacher) putBan(b *bans.Ban) error {
	at := c.now()
	put := func() error { return c.bans.Put(b, at.UnixNano()) }
	if b.Made.IsZero() {
		b.Made = at
		put = func() error { return c.bans.PutNew(b, at.UnixNano()) }
	}
	if err := b.Validate(at); err != nil {
		return fmt.Errorf("ban: %w", err)
	}
	if err := put(); err != nil {
		return fmt.Errorf("ban: %w", err)
	}
	c.logBan(b.Key())
	c.standing.Ban(b.Subject, at)
	c.bansMade[b.Source].Inc()
	if c.tell != nil {
		c.tell(b)
	}
	return nil
}

// Unban lifts the bans of a subject: those of one service; with an empty name, those that hold for all services; with
// "*", every one. It returns how many there were on this node. As for Ban, an error concerns the store only.
func (c *Cacher) Unban(ctx context.Context, s identity.Subject, service string) (int, error) {
	var keys []bans.Key
	if c.Forgot() {
		if _, err := c.Recall(ctx, s, service); err != nil {
			c.log.Warn().Err(err).Msg("a ban that memory had no room for may outlast its lifting")
		}
	}
	c.bans.EachOf(s, c.horizon().UnixNano(), func(b *bans.Ban) bool { // a ban that has ended by a doubtful clock may come back into force
		if service == "*" || b.Service == service {
			keys = append(keys, b.Key())
		}
		return true
	})
	n := 0
	var first error
	for _, k := range keys {
		if c.lift(k) {
			n++
		}
		if err := c.banWrites.Now(ctx, k); err != nil && first == nil {
			first = err
		}
	}
	return n, first
}

// lift lifts a ban regardless of when it was made: the clock of the node that made it may have been ahead of ours.
func (c *Cacher) lift(k bans.Key) bool {
	at := c.now()
	b, ok := c.bans.Get(k, c.horizon().UnixNano())
	if !ok {
		return false
	}
	made := max(at.UnixNano(), b.Made.UnixNano())
	if c.st.Shared() {
		lifted := c.bans.Lift(k, made, false)
		c.logBan(k)
		return lifted
	}
	return c.bans.Remove(k, made)
}

// BanFilter selects bans; the zero value selects all.
type BanFilter struct {
	Subject identity.Subject // of this subject
	Service string           // of this service, or of all services
	Limit   int              // at most this many; 0: no limit
}

// Bans returns the live bans that the filter selects, the newest first.
func (c *Cacher) Bans(f BanFilter) []bans.Ban {
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
	if at := c.now().UnixNano(); f.Subject.Kind != identity.KindNone {
		c.bans.EachOf(f.Subject, at, each)
	} else {
		c.bans.Each(at, each)
	}
	newest()
	return slices.Clip(list)
}

// writeBan writes the ban of a key to the store as memory has it, and tells the other nodes.
func (c *Cacher) writeBan(ctx context.Context, k bans.Key) error {
	key := k.AppendTo(nil)
	at := c.now()
	b, told, known := c.told(k)
	if !known && !c.st.Shared() { // otherwise it has ended, and so it has in the store
		if err := c.st.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete ban: %w", err)
		}
	}
	if !known || !b.Until.After(at) {
		return nil
	}
	val := told.AppendValue(nil)
	if err := c.st.Put(ctx, key, val, b.Until.Sub(at)); err != nil {
		return fmt.Errorf("write ban: %w", err)
	}
	c.bans.MarkStored(k, b.Made.UnixNano())
	if !c.st.Shared() {
		return nil
	}
	msg := binary.AppendUvarint([]byte{saidBan}, uint64(len(key)))
	msg = append(append(msg, key...), val...)
	if b.Lifted {
		msg = binary.BigEndian.AppendUint64([]byte{saidUnban}, uint64(told.Made.UnixNano()))
		msg = append(msg, key...)
	}
	if err := c.st.Append(ctx, banTopic, msg); err != nil {
		return fmt.Errorf("announce ban: %w", err)
	}
	return nil
}

// scanBans reads all bans from the store. If the store has an older version of a ban, or lacks it, it has lost the ban,
// which is then written again. A lifted ban leaves a record until it would have ended, so it does not look lost.
func (c *Cacher) scanBans(ctx context.Context) error {
	c.bans.BeginScan()
	err := store.ScanKept(ctx, c.st, []byte(bans.Prefix), func(k, v []byte, _ time.Duration) error {
		b, err := bans.Parse(k, v)
		if err != nil {
			c.badRecords.Inc()
			return nil //nolint:nilerr // one broken record must not cost all bans; it is counted
		}
		if !c.st.Shared() && c.banWrites.Pending(b.Key()) {
			return nil // it was lifted, and its deletion is still pending
		}
		if c.hearBan(&b) {
			c.banWrites.Add(b.Key())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read bans: %w", err)
	}
	if c.st.Shared() {
		return c.restoreBans(ctx)
	}
	return nil
}

// endsSoon is the remaining time below which a ban is not written back: the store may have been right to forget it.
const endsSoon = 10 * time.Second

// restoreBans writes back the bans that the store once had and the scan did not find.
func (c *Cacher) restoreBans(ctx context.Context) error {
	lost := c.bans.Missing(c.now().Add(endsSoon).UnixNano())
	if len(lost) == 0 {
		return nil
	}
	c.losses.Note("bans", len(lost))
	n, err := behind.Restore(ctx, lost, func(ctx context.Context, k bans.Key) (bool, error) {
		at := c.now()
		b, told, known := c.told(k)
		if !known || !b.Until.After(at) {
			return false, nil
		}
		// Only if there is nothing there: what another node has written in the meantime is newer, or the same.
		wrote, err := c.st.Swap(ctx, k.AppendTo(nil), nil, told.AppendValue(nil), b.Until.Sub(at))
		if err == nil {
			c.bans.MarkStored(k, b.Made.UnixNano())
		}
		return wrote, err
	})
	if n > 0 {
		err = errors.Join(err, c.st.Append(ctx, banTopic, []byte{saidScan}))
	}
	if err != nil {
		return fmt.Errorf("write bans back: %w", err)
	}
	return nil
}

// Forgot reports whether memory once had no room for a ban, so that the store may hold bans that memory does not.
func (c *Cacher) Forgot() bool { return c.bans.Evicted() > 0 }

// Recall reads a subject's bans from the store, those for all services and those for the named one, and returns how
// many of them memory did not have. It waits for the store.
func (c *Cacher) Recall(ctx context.Context, s identity.Subject, service string) (n int, err error) {
	services := []string{"", service}
	if service == "" {
		services = services[:1]
	}
	for _, source := range [...]bans.Source{bans.SourceAPI, bans.SourceProcessor} {
		for _, name := range services {
			k := bans.Key{Subject: s, Source: source, Service: name}
			if _, live := c.bans.Get(k, c.now().UnixNano()); live || c.banWrites.Pending(k) {
				continue
			}
			key := k.AppendTo(nil)
			val, err := c.st.Get(ctx, nil, key)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return n, fmt.Errorf("read ban: %w", err)
			}
			b, err := bans.Parse(key, val)
			if err != nil {
				c.badRecords.Inc()
				continue
			}
			if !b.Lifted && b.Until.Add(-c.skewNow()).After(c.now()) {
				c.hearBan(&b)
				n++
			}
		}
	}
	return n, nil
}

// hearBan takes over a ban from the store, and reports whether memory has a newer one. A full table is counted there.
func (c *Cacher) hearBan(told *bans.Ban) (newer bool) {
	c.skew.RLock()
	defer c.skew.RUnlock()
	b := told.Moved(-c.skew.by)
	newer, changed := c.bans.Merge(b, c.horizon().UnixNano())
	if !newer && !b.Lifted {
		c.standing.Ban(b.Subject, c.now())
	}
	if l := c.local.Load(); changed && l != nil {
		l.Append(banRecord(told))
	}
	return newer
}

// heardBan handles one message of the feed.
func (c *Cacher) heardBan(msg []byte) error {
	if len(msg) == 0 {
		return bans.ErrMalformed
	}
	switch kind, msg := msg[0], msg[1:]; kind {
	case saidBan:
		n, w := binary.Uvarint(msg)
		if w <= 0 || n > uint64(len(msg)-w) {
			return bans.ErrMalformed
		}
		msg = msg[w:]
		b, err := bans.Parse(msg[:n], msg[n:])
		if err != nil {
			return err
		}
		c.hearBan(&b)
	case saidUnban:
		if len(msg) < 8 {
			return bans.ErrMalformed
		}
		k, ok := bans.ParseKey(msg[8:])
		if !ok {
			return bans.ErrMalformed
		}
		c.skew.RLock()
		c.bans.Lift(k, int64(binary.BigEndian.Uint64(msg))-int64(c.skew.by), true)
		c.skew.RUnlock()
		c.logBan(k)
	case saidScan:
		return errScan
	}
	return nil
}
