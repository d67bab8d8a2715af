package sources

import (
	"context"
	"net/netip"
	"time"

	"antirobot/identity"
	"antirobot/rules"
)

// NetworkLists is what rules ask of the block base. *cbb.Lists is.
type NetworkLists interface {
	Listed(name string, addr netip.Addr, sub identity.Subject, service string, at time.Time) bool
}

// Listed looks a value up: an address, or a text that is an address or a subject.
func Listed(l NetworkLists, list string, v rules.Value, service string, at time.Time) bool {
	if v.Kind == rules.IP {
		return l.Listed(list, v.IP, identity.Subject{}, service, at)
	}
	if v.Kind != rules.Text {
		return false
	}
	if addr, err := netip.ParseAddr(v.Text); err == nil {
		return l.Listed(list, addr, identity.Subject{}, service, at)
	}
	sub, err := identity.ParseSubject(v.Text)
	if err != nil {
		return false
	}
	addr, _ := sub.Addr()
	return l.Listed(list, addr, sub, service, at)
}

// messageLists gives the rules for messages the lists, as far as they are for all services.
type messageLists struct {
	lists NetworkLists
	now   func() time.Time
}

// NewLists returns the lists for rules that belong to no service.
func NewLists(l NetworkLists, now func() time.Time) rules.ListSource {
	if now == nil {
		now = time.Now
	}
	return messageLists{l, now}
}

func (m messageLists) Listed(_ context.Context, list string, v rules.Value, _ rules.Match) (bool, error) {
	return Listed(m.lists, list, v, "", m.now()), nil
}
