package verdict

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"time"

	"antirobot/store"
	"antirobot/verdict/bans"
)

// A gateway with a shared store keeps a copy of its bans, its revocations and what it leased of passes, written after
// each scan and on shutdown. A starting gateway reads it first: the copy serves while the store is away, and is the
// source for writing back what the store has lost.

// writeCopy writes the copy. Failing to do so is no reason to stop: the store has all of it.
func (c *Cacher) writeCopy() {
	if c.copy == "" || !c.st.Shared() {
		return
	}
	at, skew := c.now(), c.skewNow()
	err := store.WriteCopy(c.copy, at, func(put func(store.Copied) error) (err error) {
		c.bans.EachRecord(at.UnixNano(), func(b *bans.Ban) bool {
			err = put(store.Copied{Key: b.Key().AppendTo(nil), Val: b.Moved(skew).AppendValue(nil), Until: b.Until})
			return err == nil
		})
		if err != nil {
			return err
		}
		err = c.revoked.each(func(id revokedKey, val int64) error {
			return put(store.Copied{
				Key: append([]byte(revokedPrefix), id[:]...), Val: binary.BigEndian.AppendUint64(nil, uint64(val)),
			})
		})
		if err != nil {
			return err
		}
		return c.ledger.EachLease(put)
	})
	if err != nil {
		c.log.Warn().Err(err).Msg("the next start needs the shared store: its bans could not be copied")
	}
}

// readCopy loads what the previous run of this gateway knew.
func (c *Cacher) readCopy() {
	if c.copy == "" {
		return
	}
	n, at := 0, c.now()
	take := func(l store.Copied) error {
		n++
		if b, err := bans.Parse(l.Key, l.Val); err == nil {
			c.hearBan(&b)
			return nil
		}
		if len(l.Key) == len(revokedPrefix)+16 && string(l.Key[:len(revokedPrefix)]) == revokedPrefix {
			return c.revoked.apply(l.Key[len(revokedPrefix):], l.Val)
		}
		if c.ledger.Recall(l.Key, l.Val) == nil {
			return nil
		}
		c.badRecords.Inc()
		return nil
	}
	written, err := store.ReadCopy(c.copy, func(store.Copied) error { return nil })
	if err == nil && at.Sub(written) > bans.LiftedFor {
		// A ban that was lifted since then may be forgotten, and nobody could tell any more.
		c.log.Warn().Time("of", written).Msg("the copy of the shared store's bans is too old to be used")
		return
	}
	if err == nil {
		_, err = store.ReadCopy(c.copy, take)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.log.Warn().Err(err).Msg("the copy of the shared store's bans can't be used")
	default:
		c.log.Info().Int("records", n).Dur("age", at.Sub(written).Truncate(time.Second)).Msg("took the last copy of the shared store's bans and revocations")
	}
}
