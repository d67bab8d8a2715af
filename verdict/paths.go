package verdict

import (
	"math/bits"
	"sync/atomic"

	"antirobot/identity"
	"antirobot/request"
)

// Paths remembers of each path what it has been at its service: a document that somebody reads, or a part of one. What
// an answer proves is remembered of the path and of its shape, in which numbers are all alike and so are the names of
// files with one ending. Where a balancer gives the answers and nothing is proved, the claims of visitors from several
// networks count.
//
// It is a table of fixed size without locks: a place is one word, and a path that shares one pushes the other out. The
// zero value is ready. Safe for concurrent use.
type Paths struct {
	answers [pathPlaces]atomic.Uint64 // tag 32, documents 16, parts 16
	claims  [pathPlaces]atomic.Uint64 // tag 32, networks that opened it as a page 16, that asked for it otherwise 16
}

const pathPlaces = 1 << 16

// reading is what is known of a path.
type reading uint8

// The readings.
const (
	readingUnknown reading = iota
	readingDocument
	readingPart
)

// pathKey is a path and its shape, at one service.
type pathKey struct{ exact, shape uint64 }

// pathKeyOf returns the key of a path at the services of a group (Settings.Group).
func pathKeyOf(group uint32, path []byte) pathKey {
	salt := uint64(group) * 0x9e3779b97f4a7c15
	return pathKey{exact: request.Hash(path) ^ salt, shape: shapeOf(path) ^ salt ^ 1}
}

// shapeOf hashes a path in which a run of digits is one sign, and of the last segment only the ending counts.
func shapeOf(path []byte) uint64 {
	last, dot := 0, -1
	for i, c := range path {
		switch c {
		case '/':
			last, dot = i, -1
		case '.':
			dot = i
		}
	}
	h := uint64(0xcbf29ce484222325)
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
	return h ^ h>>29
}

const (
	tagBits    = 32
	halfWord   = 16
	halfMask   = 1<<halfWord - 1
	provedMost = 1 << 12 // then both counts are halved
)

func tag(key uint64) uint64 { return key >> tagBits << tagBits }

func load(table *[pathPlaces]atomic.Uint64, key uint64) (high, low uint64) {
	if w := table[key%pathPlaces].Load(); w>>tagBits<<tagBits == tag(key) {
		return w >> halfWord & halfMask, w & halfMask
	}
	return 0, 0
}

// answered notes what an answer proved a path to be.
func (p *Paths) answered(k pathKey, part bool) {
	for _, key := range [...]uint64{k.exact, k.shape} {
		docs, parts := load(&p.answers, key)
		if part {
			parts++
		} else {
			docs++
		}
		if max(docs, parts) >= provedMost {
			docs, parts = docs/2, parts/2
		}
		p.answers[key%pathPlaces].Store(tag(key) | docs<<halfWord | parts) // a lost count is no harm
	}
}

// claimed notes what a visitor of a network takes a path for, where nobody knows the answer.
func (p *Paths) claimed(k pathKey, network uint64, part bool) {
	bit := uint64(1) << (network * 0x9e3779b97f4a7c15 >> 60)
	for _, key := range [...]uint64{k.exact, k.shape} {
		pages, parts := load(&p.claims, key)
		if part && parts&bit != 0 || !part && pages&bit != 0 {
			continue
		}
		if part {
			parts |= bit
		} else {
			pages |= bit
		}
		p.claims[key%pathPlaces].Store(tag(key) | pages<<halfWord | parts)
	}
}

const (
	shapeProofs   = 8 // parts that show what a shape is
	shapeNetworks = 3 // networks that do where nothing is proved
)

// read returns what a path is: what answers prove, or else what visitors take it for.
func (p *Paths) read(k pathKey) reading {
	if r := p.proved(k); r != readingUnknown {
		return r
	}
	for _, key := range [...]uint64{k.exact, k.shape} {
		pages, parts := load(&p.claims, key)
		of, to := bits.OnesCount64(parts), bits.OnesCount64(pages)
		switch {
		case of >= shapeNetworks && to*4 <= of:
			return readingPart
		case to >= shapeNetworks:
			return readingDocument
		}
	}
	return readingUnknown
}

// proved returns what answers prove a path to be.
func (p *Paths) proved(k pathKey) reading {
	switch docs, parts := load(&p.answers, k.exact); {
	case docs > 0:
		return readingDocument
	case parts > 0:
		return readingPart
	}
	switch docs, parts := load(&p.answers, k.shape); {
	case parts >= shapeProofs && docs*8 <= parts:
		return readingPart
	case docs > 0 && parts < docs*8:
		return readingDocument
	}
	return readingUnknown
}

// networkHash is what a network counts by where visitors' claims are counted: its /24 or /48, and at home each address.
func networkHash(addr identity.Subject) uint64 {
	id := addr.ID
	p := prefixOf(id, 48)
	if isIPv4(id) {
		p = prefixOf(id, 120)
		if id[12] == 10 || id[12] == 192 && id[13] == 168 || id[12] == 172 && id[13]&0xf0 == 16 {
			p = id
		}
	} else if id[0]&0xfe == 0xfc {
		p = id
	}
	return request.Hash(p[:])
}

// Count is what a request counts as for whoever counts what is read.
type Count uint8

// The counts.
const (
	CountDocument Count = iota // it was delivered, and nothing proves that it is something else
	CountPart                  // a picture, a style, a script, a font, sound, film: the answer proves it, or the path's history
	CountCall                  // a page's script or an app has asked, and got data
	CountNothing               // nothing was delivered: stopped, not modified, refused, or the visitor left
)

func (c Count) String() string {
	return [...]string{"document", "part", "call", "nothing"}[c]
}

// delivers reports whether the service's answer gave the visitor something to read. Of an answer that a balancer gives
// nothing is known: it does.
func (e *Event) delivers() bool {
	if e.Verdict != Human && e.Mode == Enforce {
		return false
	}
	return e.Advised || e.Partial && e.Status == 0 || e.Status >= 200 && e.Status < 300 && e.Status != 204
}

// Count returns what the event counts as by what its answer proves.
func (e *Event) Count() Count {
	switch {
	case !e.delivers() || e.Method == 'H', e.Type == TypeUnknown && e.BytesOut == 0:
		return CountNothing
	case e.Type == TypePart:
		return CountPart
	case e.Type == TypeHTML, e.Page && !e.Static:
		return CountDocument
	case e.Static && e.Method == 'G': // it called itself a part, and was none
		return CountDocument
	}
	return CountCall
}

// Learn notes what the event shows of its path, and returns what the event counts as. It is called once for each event.
func (p *Paths) Learn(e *Event, group uint32) Count {
	if !e.delivers() || e.Method == 'H' {
		return CountNothing
	}
	salt := uint64(group) * 0x9e3779b97f4a7c15
	k := pathKey{exact: e.Path ^ salt, shape: e.PathShape ^ salt ^ 1}
	switch {
	case e.Partial: // a recorded line knows no type
		if e.Static && !e.Document {
			return CountPart
		}
		if e.Page {
			return CountDocument
		}
		return CountCall
	case e.Advised:
		return p.learnClaim(e, k)
	}
	is := e.Count()
	if is != CountNothing && e.Method == 'G' {
		p.answered(k, e.Type == TypePart)
	}
	return is
}

// learnClaim is Learn where nobody knows the answer: a claim counts when visitors of several networks agree.
func (p *Paths) learnClaim(e *Event, k pathKey) Count {
	if e.Method != 'G' {
		if e.Page {
			return CountDocument
		}
		return CountCall
	}
	page := e.Page && !e.Static
	p.claimed(k, networkHash(e.Subjects[max(int(e.N), 1)-1]), !page)
	switch {
	case page || p.read(k) != readingPart:
		return CountDocument
	case e.Static:
		return CountPart
	}
	return CountCall
}
