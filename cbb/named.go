package cbb

import (
	"net/netip"
	"time"

	"antirobot/identity"
	"antirobot/rules/texts"
)

// Listed reports whether the list called name contains addr or sub; one of the two may be zero. "api" means the
// run-time entries, and "block", "ban" and "white" all lists with that flag. A service's entries count for that
// service alone. It does not wait. Unlike Lookup it sees an entry that another list hides.
func (l *Lists) Listed(name string, addr netip.Addr, sub identity.Subject, service string, at time.Time) bool {
	q := namedQuery{name: name, service: service, at: at}
	q.flag, q.byFlag = flagOf(name)
	addr = addr.Unmap().WithZone("")
	if l.live.over.has(addr, sub, &q) {
		return true
	}
	s := l.snap.Load()
	for _, layers := range [...][]layer{s.layers, s.quiet} {
		for i := range layers {
			if q.fits(&layers[i].base) && layers[i].data.has(addr, sub) {
				return true
			}
		}
	}
	return false
}

// Texts returns the list of texts called name for a service; nil if there is none, or no copy of it yet. It does not
// wait; a refresh does not change the returned list.
func (l *Lists) Texts(name, service string) *texts.Set {
	if t := l.snap.Load().texts[name]; t.service == "" || t.service == service {
		return t.set
	}
	return nil
}

// Names returns Config.Names of the present configuration.
func (l *Lists) Names() (names, of []string) { return l.config().Names() }

type textList struct {
	set     *texts.Set
	service string
}

type namedQuery struct {
	name, service string
	flag          Flag
	byFlag        bool
	at            time.Time
}

func (q *namedQuery) fits(e *Entry) bool {
	return (e.Service == "" || e.Service == q.service) && e.live(q.at) &&
		(q.byFlag && e.Flag == q.flag || e.List == q.name)
}

func (q *namedQuery) any(c *cell) bool {
	for _, e := range c.entries {
		if q.fits(e) {
			return true
		}
	}
	return false
}
