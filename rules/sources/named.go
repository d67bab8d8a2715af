package sources

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"antirobot/identity"
	"antirobot/rules"
	"antirobot/rules/texts"
	"antirobot/verdict/formula"
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

// Formulas gives rules the models of files. Immutable.
type Formulas struct {
	names []string
	files map[string][]byte
}

// LoadFormulas reads the files; models are parsed when rules bind them.
func LoadFormulas(named []formula.NamedConfig) (*Formulas, error) {
	f := &Formulas{names: []string{}, files: make(map[string][]byte, len(named))}
	for i, n := range named {
		data, err := readModel(n.File)
		if err != nil {
			return nil, fmt.Errorf("named[%d].file: %w", i, err)
		}
		f.names = append(f.names, n.Name)
		f.files[n.Name] = data
	}
	return f, nil
}

func readModel(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err == nil && len(data) > formula.MaxFile {
		err = fmt.Errorf("%s has more than %d MiB", name, formula.MaxFile>>20)
	}
	return data, err
}

// Names implements rules.Formulas.
func (f *Formulas) Names() []string { return slices.Clone(f.names) }

// Bind implements rules.Formulas.
func (f *Formulas) Bind(name string, factors []string) (rules.Scorer, error) {
	data, ok := f.files[name]
	if !ok {
		return nil, fmt.Errorf("there is no formula %.64q", name)
	}
	m, err := formula.Load(data, factors)
	if err != nil {
		return nil, err
	}
	return m, nil
}
