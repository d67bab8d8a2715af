package bans

import "time"

// Gateways that share a store follow two rules: of the records with one key, the one made last stays; and a lifted ban,
// too, leaves a record until it would have ended. So what the store lacks was lost, and not lifted.

// LiftedFor bounds how long a lifted ban is remembered. A gateway does not read a copy of the bans that is older than
// this.
const LiftedFor = 7 * 24 * time.Hour

// Lift lifts the ban with the key if it was made at or before the given time, and reports whether it did. stored means
// that the store has that already.
func (t *Table) Lift(k Key, made int64, stored bool) bool {
	sh, i := t.locate(k)
	defer sh.mu.Unlock()
	if i == noRecord {
		return false
	}
	r := sh.at(i)
	if r.made > made {
		return false
	}
	was := r.lifted
	r.lifted, r.stored, r.made, r.gen = true, stored, made, uint8(t.gen.Load())
	if !was {
		t.lifted.Add(1)
	}
	if most := made + int64(LiftedFor); r.until > most {
		r.until = most
		sh.fix(r.heapAt)
	}
	return !was
}

// MarkStored notes that the store has the record with the key as it was made at the given time.
func (t *Table) MarkStored(k Key, made int64) {
	sh, i := t.locate(k)
	defer sh.mu.Unlock()
	if i != noRecord && sh.at(i).made == made {
		sh.at(i).stored = true
		sh.at(i).gen = uint8(t.gen.Load()) // a running scan may have passed this place already
	}
}

// BeginScan starts a generation: whatever is put with stored from now on counts as found by the scan.
func (t *Table) BeginScan() { t.gen.Add(1) }

// Missing returns the keys of the records that the store once had, that the scan did not find, and that do not end
// before the given time: the store has lost them.
func (t *Table) Missing(before int64) []Key {
	gen := uint8(t.gen.Load())
	var lost []Key
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.RLock()
		for _, j := range sh.heap {
			if r := sh.at(j); r.stored && r.gen != gen && r.until > before {
				lost = append(lost, Key{r.subject, r.source, t.names.text(r.service)})
			}
		}
		sh.mu.RUnlock()
	}
	return lost
}
