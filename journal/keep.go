package journal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/store/pebblestore"
	"antirobot/verdict"
)

// trim drops entries that are too old, and the oldest ones beyond the size.
func (j *Journal) trim(at time.Time) {
	j.forget(at.Add(-j.cfg.MaxAge))
	j.write(0, func(b *pebblestore.LogBatch) {
		b.Forget([]byte{spaceMinute}, figureKey(spaceMinute, at.Add(-j.cfg.MaxAge)))
		b.Forget([]byte{spaceHour}, figureKey(spaceHour, at.Add(-keepFigures)))
		b.Forget([]byte{spaceDay}, figureKey(spaceDay, at.Add(-keepFigures)))
		b.Forget([]byte{spaceStoppedMinute}, figureKey(spaceStoppedMinute, at.Add(-keptMinutes)))
		b.Forget([]byte{spaceStoppedHour}, figureKey(spaceStoppedHour, at.Add(-j.cfg.stoppedAge())))
		b.Forget([]byte{spaceStoppedDay}, figureKey(spaceStoppedDay, at.Add(-keepFigures)))
	})
	oldest := j.first(at)
	cut, step := oldest, max(at.Sub(oldest)/32, time.Second)
	for cut.Before(at) && j.since(cut) > j.cfg.MaxBytes {
		cut = cut.Add(step)
	}
	if cut.After(oldest) {
		j.forget(cut)
	}
}

// stoppedAge is how long the hourly most blocked networks are kept.
func (c *Config) stoppedAge() time.Duration {
	if c.Addresses == hashAddresses {
		return min(c.MaxAge, c.AddressesAfter)
	}
	return c.MaxAge
}

// since estimates the size of the entries since a time. Dropped ones count until the engine compacts, and must not
// evict more.
func (j *Journal) since(cut time.Time) int64 {
	return j.db.Bytes(timeKey(spaceEntry, cut), []byte{spaceEntry + 1}) +
		j.db.Bytes(timeKey(spaceDetails, cut), []byte{spaceDetails + 1}) +
		j.db.Bytes(binary.BigEndian.AppendUint16([]byte{spaceSubject}, dayOf(cut)), []byte{spaceSubject + 1})
}

func (j *Journal) forget(cut time.Time) {
	j.write(0, func(b *pebblestore.LogBatch) {
		b.Forget([]byte{spaceEntry}, timeKey(spaceEntry, cut))
		b.Forget([]byte{spaceDetails}, timeKey(spaceDetails, cut))
		b.Forget([]byte{spaceSubject}, binary.BigEndian.AppendUint16([]byte{spaceSubject}, dayOf(cut)))
	})
}

// Erase forgets every entry of a subject, and returns how many there were.
func (j *Journal) Erase(ctx context.Context, subject string) (n int, err error) {
	var keys [][]byte
	err = j.ofSubject(subject, 1<<30, func(r *row) {
		keys = append(keys, entryKey(spaceEntry, r.id, r.kind), entryKey(spaceDetails, r.id, r.kind))
		prefix := subjectKey(dayOf(r.at()), subject)
		keys = append(keys, append(append(prefix, r.id[:]...), byte(r.kind)))
	})
	n = len(keys) / 3
	for len(keys) > 0 && err == nil {
		some := keys[:min(len(keys), 3*maxBatch)]
		keys = keys[len(some):]
		if err = ctx.Err(); err == nil {
			err = j.db.Write(func(b *pebblestore.LogBatch) {
				for _, k := range some {
					b.Delete(k)
				}
			})
		}
	}
	return n, err
}

var veiledKey = []byte{spaceState, 'v'}

const veilAtOnce = 20_000

// veil shortens or hashes the addresses of old entries, a bounded number each time.
func (j *Journal) veil(at time.Time) {
	if j.cfg.Addresses == keepAddresses || j.cfg.AddressesAfter >= j.cfg.MaxAge {
		return
	}
	from := []byte{spaceEntry}
	if done, ok, err := j.db.Get(nil, veiledKey); err == nil && ok {
		from = append([]byte{spaceEntry}, done...)
	}
	var batch []written
	var last []byte
	err := j.db.Scan(from, timeKey(spaceEntry, at.Add(-j.cfg.AddressesAfter)), false, func(key, val []byte) bool {
		last = append(last[:0], key[1:]...)
		var w written
		if w.row.read(key, append([]byte(nil), val...)) == nil {
			batch = append(batch, w)
		}
		return len(batch) < veilAtOnce
	})
	if err != nil || last == nil {
		return
	}
	for len(batch) > 0 {
		some := batch[:min(len(batch), maxBatch)]
		batch = batch[len(some):]
		veiled := make([]func(b *pebblestore.LogBatch), len(some))
		for i := range some {
			veiled[i] = j.veiled(&some[i].row, j.hide(some[i].row.at()))
		}
		j.write(0, func(b *pebblestore.LogBatch) {
			for _, f := range veiled {
				f(b)
			}
		})
	}
	j.write(0, func(b *pebblestore.LogBatch) { b.Put(veiledKey, append(last, 0)) })
}

// hide returns the function that hides addresses of a day. Hashes of one day compare equal; across days or restarts
// they don't.
func (j *Journal) hide(at time.Time) func(string) string {
	if j.cfg.Addresses != hashAddresses {
		return shortened
	}
	if number := dayOf(at); j.hash == nil || j.hashDay != number {
		j.hash, j.hashDay = hashed(), number
	}
	return j.hash
}

func (j *Journal) veiled(r *row, hide func(string) string) func(b *pebblestore.LogBatch) {
	subject, address := string(r.texts[colSubject]), string(r.texts[colAddress])
	number := dayOf(r.at())
	var gone [][]byte
	index := func(s string) {
		if strings.HasPrefix(s, "ip:") {
			gone = append(gone, append(append(subjectKey(number, s), r.id[:]...), byte(r.kind)))
		}
	}
	index(subject)
	if a, err := netip.ParseAddr(address); err == nil {
		index(identity.AddrSubject(a).String())
		index(address)
	}
	key := entryKey(spaceDetails, r.id, r.kind)
	var details []byte
	if text, ok, err := j.db.Get(nil, key); err == nil && ok && r.kind < KindBan {
		var s verdict.Story
		if json.Unmarshal(text, &s) == nil {
			for _, c := range s.Considered {
				index(c)
			}
			hideStory(&s, hide)
			details, _ = json.Marshal(s)
		}
	}
	r.texts[colSubject], r.texts[colAddress] = []byte(hideSubject(subject, hide)), []byte(hide(address))
	if list, entry, ok := strings.Cut(string(r.texts[colReason]), ": "); ok {
		r.texts[colReason] = []byte(list + ": " + hide(entry))
	}
	return func(b *pebblestore.LogBatch) {
		b.Put(entryKey(spaceEntry, r.id, r.kind), appendRow(nil, r))
		b.Delete(key)
		if details != nil {
			b.Put(key, details)
		}
		for _, k := range gone {
			b.Delete(k)
		}
	}
}

func hideStory(s *verdict.Story, hide func(string) string) {
	s.Subject, s.Excused = hideSubject(s.Subject, hide), hideSubject(s.Excused, hide)
	for i := range s.Considered {
		s.Considered[i] = hideSubject(s.Considered[i], hide)
	}
	if s.Ban != nil {
		s.Ban.Subject = hideSubject(s.Ban.Subject, hide)
	}
	if s.Doubt != nil {
		s.Doubt.Subject = hideSubject(s.Doubt.Subject, hide)
	}
	if s.Entry != nil {
		s.Entry.Text = hide(s.Entry.Text)
	}
}

func hideSubject(s string, hide func(string) string) string {
	if address, ok := strings.CutPrefix(s, "ip:"); ok {
		return "ip:" + hide(address)
	}
	return s
}

// shortened returns the /24 or /48 of an address, a longer network or the ends of a range; other text unchanged.
func shortened(s string) string {
	if from, to, ok := strings.Cut(s, "-"); ok && named(s) {
		if n := shortened(from); n != shortened(to) {
			return n + "-" + shortened(to)
		}
		return shortened(from)
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return s
		}
		if n := identity.NetOf(p.Addr()); n.Bits() < p.Bits() {
			return n.String()
		}
		return s
	}
	return identity.NetOf(a.Unmap()).String()
}

// named reports whether a list entry is an address, a network, or a range with a dash.
func named(s string) bool {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		_, ok := network(s)
		return ok
	}
	_, err := netip.ParseAddr(from)
	_, errTo := netip.ParseAddr(to)
	return err == nil && errTo == nil
}

// hashed returns a function that hashes addresses with a key that is not stored.
func hashed() func(string) string {
	var key [32]byte
	_, _ = rand.Read(key[:])
	return func(s string) string {
		if !named(s) {
			return s
		}
		sum := sha256.Sum256(append(key[:], s...))
		return "#" + hex.EncodeToString(sum[:8])
	}
}
