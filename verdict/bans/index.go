package bans

// index finds records by the hash of their key: open addressing, linear probing, four bytes per slot. A slot holds 12
// bits of the hash beside the record's number, so a look-up that finds nothing, as almost all do, touches one cache
// line and no record. The zero value is ready to use; the owner's lock guards it.
type index struct {
	places []uint32 // 0: empty; else 12 bits of hash, 20 bits of number + 1
	n      int
}

const (
	indexBits  = 20
	indexMost  = 1<<indexBits - 2 // records that one index can number
	indexLeast = 16
)

func tagOf(hash uint64) uint32 { return uint32(hash>>52) << indexBits }

// home is the slot where the search for a hash begins. The lowest bits have already selected the shard.
func (x *index) home(hash uint64) int { return int(hash>>8) & (len(x.places) - 1) }

// find returns the slot and the number of the first record with this hash that the caller accepts.
func (x *index) find(hash uint64, is func(no uint32) bool) (place int, no uint32, ok bool) {
	if x.n == 0 {
		return 0, 0, false
	}
	tag, mask := tagOf(hash), len(x.places)-1
	for i := x.home(hash); ; i = (i + 1) & mask {
		p := x.places[i]
		if p == 0 {
			return 0, 0, false
		}
		if p&^(1<<indexBits-1) == tag {
			if no := p&(1<<indexBits-1) - 1; is(no) {
				return i, no, true
			}
		}
	}
}

// put adds a record that is not in the index. hashOf returns the hash of one that is.
func (x *index) put(hash uint64, no uint32, hashOf func(no uint32) uint64) {
	if 4*(x.n+1) > 3*len(x.places) {
		old := x.places
		x.places = make([]uint32, max(indexLeast, 2*len(old)))
		for _, p := range old {
			if p != 0 {
				x.settle(hashOf(p&(1<<indexBits-1)-1), p)
			}
		}
	}
	x.settle(hash, tagOf(hash)|(no+1))
	x.n++
}

func (x *index) settle(hash uint64, p uint32) {
	i := x.home(hash)
	for x.places[i] != 0 {
		i = (i + 1) & (len(x.places) - 1)
	}
	x.places[i] = p
}

// set makes a slot that find returned hold another record with the same key.
func (x *index) set(place int, no uint32) {
	x.places[place] = x.places[place]&^(1<<indexBits-1) | (no + 1)
}

// remove empties a slot that find returned and closes the gap, so that no tombstones accumulate.
func (x *index) remove(place int, hashOf func(no uint32) uint64) {
	mask := len(x.places) - 1
	for i := place; ; {
		i = (i + 1) & mask
		p := x.places[i]
		if p == 0 {
			break
		}
		// p may move into the gap unless its home lies behind the gap.
		if h := x.home(hashOf(p&(1<<indexBits-1) - 1)); (i-h)&mask >= (i-place)&mask {
			x.places[place] = p
			place = i
		}
	}
	x.places[place] = 0
	x.n--
}
