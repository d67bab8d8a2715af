package demo

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// role is what a visitor, pretend or real, has been turned into.
type role string

// The roles, in the order of the page's buttons.
const (
	roleHuman   role = "human"
	roleListed  role = "listed"
	roleBanned  role = "banned"
	roleBlocked role = "blocked"
	roleWhite   role = "white"
)

var roles = [...]role{roleHuman, roleListed, roleBanned, roleBlocked, roleWhite}

// roleLife is how long a role lasts: the TTL of every ban and entry that the site asks for.
const roleLife = "2m"

type visitor struct {
	id      string
	address netip.Addr // of the pretend visitor
	stop    func()     // ends the pretend visitor's run as a scraper; nil: it does not run
	cookie  string     // value of the site's own signed cookie, if the visitor took one
	seen    time.Time
}

func (v *visitor) pretend() string { return "ip:" + v.address.String() }

// maxVisitors is how many visitors are remembered: one for each address of the three networks reserved for
// documentation.
const maxVisitors = 3 * 254

const visitorCookie = "demo_play"

// visitors remembers the players by a cookie. The one not seen for the longest time makes room for a new one. The zero
// value is ready for use.
type visitors struct {
	mu   sync.Mutex
	byID map[string]*visitor
	used map[netip.Addr]string
	next int // number of the address that is tried next
}

// of returns a copy of the visitor that the request belongs to, and sets a cookie for a new one.
func (v *visitors) of(w http.ResponseWriter, r *http.Request, now time.Time) visitor {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c, err := r.Cookie(visitorCookie); err == nil {
		if p := v.byID[c.Value]; p != nil {
			p.seen = now
			return *p
		}
	}
	if v.byID == nil {
		v.byID, v.used = map[string]*visitor{}, map[netip.Addr]string{}
	}
	if len(v.byID) >= maxVisitors {
		v.dropOldest()
	}
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	p := &visitor{id: hex.EncodeToString(raw[:]), seen: now, address: v.freeAddress()}
	v.byID[p.id], v.used[p.address] = p, p.id
	http.SetCookie(w, &http.Cookie{
		Name: visitorCookie, Value: p.id, Path: "/play", HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
	return *p
}

// change applies f to the visitor called id, if it is still remembered.
func (v *visitors) change(id string, f func(*visitor)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.byID[id]; p != nil {
		f(p)
	}
}

func (v *visitors) dropOldest() {
	var oldest *visitor
	for _, p := range v.byID {
		if oldest == nil || p.seen.Before(oldest.seen) {
			oldest = p
		}
	}
	delete(v.byID, oldest.id)
	delete(v.used, oldest.address)
}

// freeAddress returns an unused address of the documentation networks, the one that was not used for the longest
// time.
func (v *visitors) freeAddress() netip.Addr {
	nets := [...][3]byte{{203, 0, 113}, {198, 51, 100}, {192, 0, 2}}
	for range maxVisitors {
		n := v.next % maxVisitors
		v.next++
		net := nets[n/254]
		a := netip.AddrFrom4([4]byte{net[0], net[1], net[2], byte(n%254) + 1})
		if v.used[a] == "" {
			return a
		}
	}
	panic("BUG: more visitors than addresses")
}

// renew gives the visitor called id a pretend visitor that is new to the gateway.
func (v *visitors) renew(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.byID[id]
	if p == nil || len(v.used) >= maxVisitors { // all are in use: it stays who it is
		return
	}
	was := p.address
	p.address = v.freeAddress()
	v.used[p.address] = id
	delete(v.used, was)
}
