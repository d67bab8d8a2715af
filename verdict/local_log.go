package verdict

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"time"

	"antirobot/store"
	"antirobot/verdict/bans"
)

// A gateway with a shared store logs every ban, unban, revocation and payment that it makes or hears in a local file. A
// starting gateway reads it first: it serves while the store is away, and is the source for writing back what the store has
// lost. Times in it are the store's.

// openLog reads what the previous run of this gateway knew, and logs from then on.
func (c *Cacher) openLog() {
	if c.logFile == "" {
		return
	}
	c.readLog()
	l := store.OpenLog(c.logFile, c.now, c.log, c.eachLogged)
	c.local.Store(l)
	c.ledger.LogTo(l)
}

// eachLogged yields all that the log has to hold.
func (c *Cacher) eachLogged(put func(store.Logged) error) (err error) {
	skew := c.skewNow()
	c.bans.EachRecord(c.now().UnixNano(), func(b *bans.Ban) bool {
		err = put(banRecord(b.Moved(skew)))
		return err == nil
	})
	if err != nil {
		return err
	}
	err = c.revoked.each(func(id revokedKey, val int64) error { return put(revocationRecord(id, val)) })
	if err != nil {
		return err
	}
	return c.ledger.EachLease(put)
}

func banRecord(told *bans.Ban) store.Logged {
	return store.Logged{Key: told.Key().AppendTo(nil), Val: told.AppendValue(nil), Until: told.Until}
}

func revocationRecord(id revokedKey, val int64) store.Logged {
	return store.Logged{
		Key: append([]byte(revokedPrefix), id[:]...),
		Val: binary.BigEndian.AppendUint64(nil, uint64(val)), //nolint:gosec // read back as it is
	}
}

// logBan logs a ban as memory has it.
func (c *Cacher) logBan(k bans.Key) {
	l := c.local.Load()
	if l == nil {
		return
	}
	if _, told, known := c.told(k); known {
		l.Append(banRecord(told))
	}
}

func (c *Cacher) logRevocation(id revokedKey, val int64) {
	if l := c.local.Load(); l != nil {
		l.Append(revocationRecord(id, val))
	}
}

// readLog loads what the previous run of this gateway knew.
func (c *Cacher) readLog() {
	at := c.now()
	read, err := store.ReadLog(c.logFile, func(store.Logged) error { return nil })
	if err == nil && at.Sub(read.At) > bans.LiftedFor {
		// A ban that was lifted since then may be forgotten, and nobody could tell any more.
		c.log.Warn().Time("of", read.At).Msg("the local log of the shared store's bans is too old to be used")
		return
	}
	if err == nil {
		read, err = store.ReadLog(c.logFile, c.takeLogged)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.log.Warn().Err(err).Msg("the local log of the shared store's bans can't be read")
	}
	if read.Damaged > 0 {
		c.log.Warn().Int("places", read.Damaged).Msg("the local log of the shared store's bans is damaged: skipped what can't be read")
	}
	c.log.Info().Int("records", read.Records).Dur("age", at.Sub(read.At).Truncate(time.Second)).
		Msg("read the local log of the shared store's bans, revocations and payments")
}

func (c *Cacher) takeLogged(l store.Logged) error {
	if b, err := bans.Parse(l.Key, l.Val); err == nil {
		c.hearBan(&b)
		return nil
	}
	if len(l.Key) == len(revokedPrefix)+16 && string(l.Key[:len(revokedPrefix)]) == revokedPrefix &&
		c.revoked.apply(l.Key[len(revokedPrefix):], l.Val) == nil {
		return nil
	}
	if c.ledger.Recall(l.Key, l.Val) != nil {
		c.badRecords.Inc()
	}
	return nil
}
