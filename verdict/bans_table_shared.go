package verdict

import "time"

// What several gateways that share a store agree on: of one key the record that was made last stays, and a ban that is
// taken back leaves a record, too, until it would have ended. So what the store lacks was lost, and not lifted.

// liftedFor bounds how long a lifted ban is remembered. A gateway's copy of the bans is not read when it is older.
const liftedFor = 7 * 24 * time.Hour

// Lift takes back the ban of a key if it was made at or before the given time, and reports whether it did. stored says
// that the store has that already.
func (t *banTable) Lift(k banKey, made int64, stored bool) bool {
	service, ok := t.names.known(k.service)
	if !ok {
		return false
	}
	hash := t.hash(k.subject)
	sh := t.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i := sh.find(hash, k.subject, k.source, service)
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
	if most := made + int64(liftedFor); r.until > most {
		r.until = most
		sh.fix(r.heapAt)
	}
	return !was
}

// MarkStored notes that the store has the record of the key as it was made at the given time.
func (t *banTable) MarkStored(k banKey, made int64) {
	service, ok := t.names.known(k.service)
	if !ok {
		return
	}
	hash := t.hash(k.subject)
	sh := t.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.find(hash, k.subject, k.source, service); i != noRecord && sh.at(i).made == made {
		sh.at(i).stored = true
		sh.at(i).gen = uint8(t.gen.Load()) // a scan that runs may have passed its place already
	}
}

// BeginScan starts a generation: what is put with stored from now on has been met by the scan.
func (t *banTable) BeginScan() { t.gen.Add(1) }

// Missing returns the keys of the records that the store had once, that the scan did not meet, and that do not end before
// the given time: the store has lost them.
func (t *banTable) Missing(before int64) []banKey {
	gen := uint8(t.gen.Load())
	var lost []banKey
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.RLock()
		for _, j := range sh.heap {
			if r := sh.at(j); r.stored && r.gen != gen && r.until > before {
				lost = append(lost, banKey{r.subject, r.source, t.names.text(r.service)})
			}
		}
		sh.mu.RUnlock()
	}
	return lost
}
