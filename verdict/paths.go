package verdict

import (
	"math/bits"
	"sync/atomic"

	"antirobot/identity"
	"antirobot/request"
)

// Paths remembers for each path what it has been at its service: a document that somebody reads, or a part of one. What
// an answer proves is remembered for the path and for its shape, in which all numbers are alike, and so are all file
// names with the same ending. Where a balancer answers and nothing is proved, the claims of visitors from several
// networks count, those of established visitors first.
//
// It is a table of fixed size without locks: each slot is one word, and paths that share a slot evict each other. The
// zero value is ready to use. Safe for concurrent use.
type Paths struct {
	hash    *request.HashKey
	answers [pathPlaces]atomic.Uint64 // tag 34, documents 10, parts 10, data 10
	claims  [pathPlaces]atomic.Uint64 // tag 32, networks that opened it as a page 16, that requested it otherwise 16
	ours    [pathPlaces]atomic.Uint64 // the same for established visitors, who have the last word
	readers [pathPlaces]atomic.Uint64 // tag 32, networks whose programs read what is no page there 16, whose browsers do 16
}

const pathPlaces = 1 << 16

// reading is what is known about a path.
type reading uint8

// The readings.
const (
	readingUnknown reading = iota
	readingDocument
	readingPart
	readingData // JSON or XML, which programs read
)

// pathKey is a path and its shape, at one service.
type pathKey struct{ exact, shape uint64 }

// pathKeyOf returns the key of a path at the services of a group (Settings.Group).
func pathKeyOf(key *request.HashKey, group uint32, path []byte) pathKey {
	salt := uint64(group) * 0x9e3779b97f4a7c15
	return apart(key.Sum(path)^salt, shapeOf(key, path)^salt^1)
}

// apart is the key of a path with these hashes. Shapes have a quarter of the places to themselves: they are few, and the paths of a large
// site, which are many, would push most of them out.
func apart(exact, shape uint64) pathKey {
	const quarter = 3 * pathPlaces / 4
	if exact&quarter == quarter {
		exact &^= pathPlaces / 2
	}
	return pathKey{exact: exact, shape: shape | quarter}
}

// keyOf is the key of a path at a service.
func (p *Paths) keyOf(s *Settings, v *request.View) pathKey {
	if len(v.Named) == 0 {
		return pathKeyOf(p.hash, s.Group, v.Path)
	}
	var e Event
	e.Path, e.PathShape = pathsOf(p.hash, v)
	return e.key(s.Group)
}

// pathsOf returns the hashes of the path of a request and of its shape. One that a service may take for another's, which a field names, has no shape but itself.
func pathsOf(key *request.HashKey, v *request.View) (exact, shape uint64) {
	exact = key.Sum(v.Path)
	if len(v.Named) == 0 {
		return exact, shapeOf(key, v.Path)
	}
	exact ^= key.Sum(v.Named)*0x9e3779b97f4a7c15 | 1
	return exact, exact
}

// shapeOf hashes a path in which a run of digits counts as one character, and only the ending of the last segment
// counts. A path that services may read as another has no shape but itself: /product/1;a.jpg is no picture among others.
func shapeOf(key *request.HashKey, path []byte) uint64 {
	last, dot := 0, -1
	for i, c := range path {
		switch c {
		case ';', '\\':
			return key.Sum(path)
		case '%':
			if escapesMeaning(path[i+1:]) {
				return key.Sum(path)
			}
		case '/':
			last, dot = i, -1
		case '.':
			dot = i
		}
	}
	h := 0xcbf29ce484222325 ^ key[0]
	add := func(c byte) { h = (h ^ uint64(c)) * 0x100000001b3 }
	digits := false
	for _, c := range path[:last] {
		if digit := '0' <= c && c <= '9'; digit {
			if !digits {
				add('#')
			}
			digits = true
			continue
		}
		digits = false
		add(c)
	}
	add('*')
	if dot > last {
		for _, c := range path[dot:] {
			add(c)
		}
	}
	h ^= key[1]
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// escapesMeaning reports whether the two digits of an escape stand for a byte that divides paths, or for one that services may drop.
func escapesMeaning(b []byte) bool {
	if len(b) < 2 {
		return true
	}
	hi, lo := request.Unhex(b[0]), request.Unhex(b[1])
	if hi < 0 || lo < 0 {
		return true
	}
	switch c := byte(hi<<4 | lo); c {
	case '/', '\\', ';', '?', '#', '%', '.':
		return true
	default:
		return c < ' ' || c == 0xc0 || c == 0xc1
	}
}

const (
	tagBits    = 32
	halfWord   = 16
	halfMask   = 1<<halfWord - 1
	proofBits  = 10 // of each of the three counts of answers
	proofMask  = 1<<proofBits - 1
	provedMost = 1000 // beyond this all counts are halved
)

func tag(key uint64) uint64 { return key >> tagBits << tagBits }

func load(table *[pathPlaces]atomic.Uint64, key uint64) (high, low uint64) {
	if w := table[key%pathPlaces].Load(); w>>tagBits<<tagBits == tag(key) {
		return w >> halfWord & halfMask, w & halfMask
	}
	return 0, 0
}

// proofs counts how often answers have shown what a path is.
type proofs struct{ docs, parts, data uint64 }

func (p *Paths) proofs(key uint64) proofs {
	w := p.answers[key%pathPlaces].Load()
	if w>>(3*proofBits) != key>>(3*proofBits) {
		return proofs{}
	}
	return proofs{w >> (2 * proofBits) & proofMask, w >> proofBits & proofMask, w & proofMask}
}

// answered records what an answer proved a path to be.
func (p *Paths) answered(k pathKey, is reading) {
	for _, key := range [...]uint64{k.exact, k.shape} {
		n := p.proofs(key)
		switch is {
		case readingPart:
			n.parts++
		case readingData:
			n.data++
		default:
			n.docs++
		}
		if max(n.docs, n.parts, n.data) >= provedMost {
			n.docs, n.parts, n.data = n.docs/2, n.parts/2, n.data/2
		}
		p.answers[key%pathPlaces].Store(key>>(3*proofBits)<<(3*proofBits) | n.docs<<(2*proofBits) | n.parts<<proofBits | n.data) // losing a count does no harm
	}
}

// claimed records what a visitor of a network takes a path for, where the answer is unknown.
func (p *Paths) claimed(k pathKey, network uint64, part, established bool) {
	claim(&p.claims, k, network, part)
	if established {
		claim(&p.ours, k, network, part)
	}
}

func claim(table *[pathPlaces]atomic.Uint64, k pathKey, network uint64, part bool) {
	bit := uint64(1) << (network * 0x9e3779b97f4a7c15 >> 60)
	for _, key := range [...]uint64{k.exact, k.shape} {
		pages, parts := load(table, key)
		if part && parts&bit != 0 || !part && pages&bit != 0 {
			continue
		}
		if part {
			parts |= bit
		} else {
			pages |= bit
		}
		table[key%pathPlaces].Store(tag(key) | pages<<halfWord | parts)
	}
}

// isMachine reports whether programs alone read a path whose answers are no pages, at a service that few people read pages of: a
// registry, an interface for apps. A single browser that calls the path ends that, so nobody can make such a path of one that pages call.
func (p *Paths) isMachine(k pathKey, group uint32) bool {
	programs, browsers := load(&p.readers, k.shape)
	if programs == 0 || browsers > 0 {
		return false
	}
	_, people := load(&p.readers, siteKey(group).shape)
	return bits.OnesCount64(people) < siteNetworks
}

// ReadByPrograms reports whether programs of several networks read the path of an event: it is an interface for an app, not what one
// client makes up.
func (p *Paths) ReadByPrograms(e *Event, group uint32) bool {
	programs, _ := load(&p.readers, e.key(group).shape)
	return bits.OnesCount64(programs) >= shapeNetworks
}

// siteKey stands for all pages of the services of a group.
func siteKey(group uint32) pathKey {
	h := (uint64(group) + 1) * 0x9e3779b97f4a7c15
	return apart(h, h)
}

const (
	shapeProofs   = 8 // parts that prove what a shape is
	siteNetworks  = 8 // networks whose browsers read pages of a service that is for people
	shapeNetworks = 3 // networks that do so where nothing is proved
	mostlyOne     = 8 // this many answers of one kind for each of another show that the path is mostly the first
)

// read returns what a path is: what answers prove, or else what visitors take it for.
func (p *Paths) read(k pathKey) reading {
	if r := p.proved(k); r != readingUnknown {
		return r
	}
	for _, table := range [...]*[pathPlaces]atomic.Uint64{&p.ours, &p.claims} {
		for _, key := range [...]uint64{k.exact, k.shape} {
			pages, parts := load(table, key)
			of, to := bits.OnesCount64(parts), bits.OnesCount64(pages)
			switch {
			case of >= shapeNetworks && to*4 <= of:
				return readingPart
			case to >= shapeNetworks:
				return readingDocument
			}
		}
	}
	return readingUnknown
}

// proved returns what answers prove a path to be.
func (p *Paths) proved(k pathKey) reading {
	switch n := p.proofs(k.exact); {
	case n.docs > 0:
		return readingDocument
	case n.data > 0 && n.parts < n.data*mostlyOne:
		return readingData
	case n.parts > 0:
		return readingPart
	}
	switch n := p.proofs(k.shape); {
	case n.parts >= shapeProofs && (n.docs+n.data)*mostlyOne <= n.parts:
		return readingPart
	case n.data >= shapeProofs && (n.docs+n.parts)*mostlyOne <= n.data:
		return readingData
	case n.docs > 0 && n.parts < n.docs*mostlyOne:
		return readingDocument
	}
	return readingUnknown
}

// networkHash is the network that a visitor's claims count for: its /24 or /48, and for home networks each address.
func networkHash(addr identity.Subject) uint64 {
	id := addr.ID
	p := identity.NetworkOf(id)
	if identity.IsIPv4(id) {
		if id[12] == 10 || id[12] == 192 && id[13] == 168 || id[12] == 172 && id[13]&0xf0 == 16 {
			p = id
		}
	} else if id[0]&0xfe == 0xfc {
		p = id
	}
	return request.Hash(p[:])
}
