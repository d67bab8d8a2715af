package sources

import (
	"context"
	"net/netip"
	"time"

	"antirobot/identity"
	"antirobot/rules"
	"antirobot/rules/texts"
)

// Lists is the part of *cbb.Lists that rules use.
type Lists interface {
	Listed(name string, addr netip.Addr, sub identity.Subject, service string, at time.Time) bool
	// Texts returns a list of texts for the service; nil if there is none.
	Texts(name, service string) *texts.Set
}

// Named describes lists by name and kind.
func Named(names, of []string) []rules.List {
	lists := make([]rules.List, len(names))
	for i, name := range names {
		lists[i].Name = name
		lists[i].Of, lists[i].Texts = texts.ParseKind(of[i])
	}
	return lists
}

// Listed looks a value up: an address, or a text that is an address or a subject.
func Listed(l Lists, list string, v rules.Value, service string, at time.Time) bool {
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

type messageLists struct {
	lists Lists
	now   func() time.Time
}

// NewLists returns the lists for rules that belong to no service.
func NewLists(l Lists, now func() time.Time) rules.ListSource {
	if now == nil {
		now = time.Now
	}
	return messageLists{l, now}
}

func (m messageLists) Listed(_ context.Context, list string, v rules.Value) (bool, error) {
	return Listed(m.lists, list, v, "", m.now()), nil
}

func (m messageLists) Texts(list string) *texts.Set { return m.lists.Texts(list, "") }
