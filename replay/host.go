package replay

import (
	"bytes"
	"net/netip"

	"antirobot/request"
)

// Most logs do not name the site's own host. Without it each Referer would be another site's, and nothing could be said
// of the ways that visitors take. So it is taken from the log: it is the host of the Referers whose path the log itself
// has as a target.

const (
	lookAhead = 8192 // records looked at before the first is judged
	hostSeen  = 5    // of them must show the host
	maxHosts  = 1000
)

// ahead is a log of which the first records were looked at.
type ahead struct {
	log   *Log
	first []*Record
	err   error // that came after them
	calls calls
	one   netip.Addr // of nearly all visitors, so it says nothing of any; zero: there is none
}

// next returns the next record, as Log.next.
func (a *ahead) next() (*Record, error) {
	var r *Record
	err := a.err
	switch {
	case len(a.first) > 0:
		r, err = a.first[0], nil
		a.first = a.first[1:]
	case err == nil:
		r, err = a.log.next()
	}
	if err == nil && len(r.Who) > 0 && r.Addr == a.one {
		r.setApart()
	}
	return r, err
}

// From so many visitors, nine in ten of whose requests have one address, on, the address is a balancer's, or was put
// there so that the log may be passed on.
const oneOf = 10

func (a *ahead) hidden() {
	by, who := map[netip.Addr]int{}, map[string]bool{}
	for _, r := range a.first {
		if len(r.Who) > 0 {
			by[r.Addr]++
			who[string(r.Who)] = true
		}
	}
	for addr, n := range by {
		if n*10 >= len(a.first)*9 && len(who) >= oneOf {
			a.one = addr
		}
	}
}

// look reads the first records, and learns from them what scripts ask for.
func (a *ahead) look() {
	var view request.View
	for len(a.first) < lookAhead {
		var r *Record
		if r, a.err = a.log.next(); a.err != nil {
			break
		}
		a.first = append(a.first, r)
		r.view(&view, nil)
		a.calls.see(r, view.NamesPart())
	}
	a.hidden()
}

// ownHost returns the host of the site; nil: the lines name it, or do not show it.
func (a *ahead) ownHost() []byte {
	targets := map[string]bool{}
	for _, r := range a.first {
		if len(r.Host) > 0 {
			return nil
		}
		targets[string(pathOf(originForm(r.Target)))] = true
	}
	seen := map[string]int{}
	best := ""
	for _, r := range a.first {
		host, target := refererOf(r)
		path := pathOf(target)
		if len(path) < 2 || !targets[string(path)] {
			continue
		}
		if _, ok := seen[string(host)]; !ok && len(seen) >= maxHosts {
			continue
		}
		name := string(host)
		if seen[name]++; seen[name] > seen[best] {
			best = name
		}
	}
	if seen[best] < hostSeen {
		return nil
	}
	return request.HostName([]byte(best))
}

// refererOf splits the Referer of a record into host and target; nil if it has none.
func refererOf(r *Record) (host, target []byte) {
	_, rest, ok := bytes.Cut(r.get(nameReferer), []byte("://"))
	slash := bytes.IndexByte(rest, '/')
	if !ok || slash < 0 {
		return nil, nil
	}
	return rest[:slash], upTo(rest[slash:], hash)
}

// pathOf is a target without its query and fragment.
func pathOf(target []byte) []byte { return upTo(upTo(target, question), hash) }

func upTo(b, mark []byte) []byte {
	b, _, _ = bytes.Cut(b, mark)
	return b
}

var question, hash = []byte("?"), []byte("#")
