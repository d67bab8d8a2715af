package identity

import "antirobot/request"

// hostPrefix begins the name of a cookie that browsers keep only if this very host set it over https (RFC 6265bis).
const hostPrefix = "__Host-"

// jar holds the relevant cookies of one request, by kind, in the order in which they came; a pass whose name has the
// hostPrefix comes first. A sibling domain can set cookies with the same names in a browser, which may come before the
// real ones: so all that bear our seal or the service's are tried, and those that don't fit here are looked up again.
type jar struct {
	values [numCookies][jarPlaces][]byte
	n      [numCookies]uint8
	over   [numCookies]bool // there were more
}

const (
	jarPlaces = 4
	// maxTried bounds the cookies of one kind that are tried, in bytes: browsers send about that much in total. A
	// client that hides its identity behind more is judged without it.
	maxTried = 16 << 10
	minTried = 200 // the least that one counts for: ours have about this size
)

// places is how many cookies of each kind the jar holds. A session is expensive to verify and a fuid costs a table
// entry: no more of these are tried.
var places = [numCookies]uint8{KindSpravka: jarPlaces, KindL: 2, KindFuid: 2, KindI: 2, KindService: 2}

func (k Kind) cheap() bool { return k == KindSpravka || k == KindI || k == KindService }

// collect puts the cookies of a request into the jar.
func (j *jar) collect(s *CookieSettings, v *request.View) {
	for c := v.Cookies(); c.Next(); {
		for k := KindSpravka; k <= KindService; k++ {
			if name := s.names[k]; name != "" && string(c.Name) == name {
				j.put(k, c.Value)
			}
		}
		if len(c.Name) > len(hostPrefix) && string(c.Name) == s.hostSpravka {
			j.putFirst(KindSpravka, c.Value)
		}
	}
}

func (j *jar) put(k Kind, value []byte) {
	if j.n[k] == places[k] {
		j.over[k] = true
		return
	}
	j.values[k][j.n[k]] = value
	j.n[k]++
}

// putFirst makes room at the front; a cookie that has to leave is found again.
func (j *jar) putFirst(k Kind, value []byte) {
	if j.n[k] == places[k] {
		j.over[k] = true
		j.n[k]--
	}
	copy(j.values[k][1:], j.values[k][:j.n[k]])
	j.values[k][0] = value
	j.n[k]++
}

// tries iterates over the cookies of one kind: those in the jar, then, if there were more, all of the request.
type tries struct {
	value []byte

	kind  Kind
	i     uint8
	left  int // bytes
	again bool
	all   request.Cookies
}

func triesOf(k Kind) tries { return tries{kind: k, left: maxTried} }

// next goes to the next cookie. It records in id if there are more than are tried.
func (t *tries) next(j *jar, id *Identity, v *request.View, s *CookieSettings) bool {
	if t.i < j.n[t.kind] {
		t.value = j.values[t.kind][t.i]
		t.i++
		t.left -= max(len(t.value), minTried)
		return true
	}
	if !j.over[t.kind] {
		return false
	}
	if !t.kind.cheap() {
		id.refuse(t.kind, RefusedTooMany)
		return false
	}
	if !t.again {
		t.again, t.all = true, v.Cookies()
	}
	for t.all.Next() {
		if string(t.all.Name) != s.names[t.kind] || j.holds(t.kind, t.all.Value) {
			continue
		}
		if t.left -= max(len(t.all.Value), minTried); t.left < 0 {
			id.refuse(t.kind, RefusedTooMany)
			return false
		}
		t.value = t.all.Value
		return true
	}
	return false
}

// holds reports whether a value is in the jar: its bytes are those of the request.
func (j *jar) holds(k Kind, value []byte) bool {
	for _, kept := range j.values[k][:j.n[k]] {
		if len(kept) > 0 && len(value) > 0 && &kept[0] == &value[0] {
			return true
		}
	}
	return false
}
