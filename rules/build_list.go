package rules

import (
	"context"
	"slices"

	"antirobot/request"
	"antirobot/rules/texts"
	"antirobot/spelling"
)

// List is a list that rules may name.
type List struct {
	Name  string
	Texts bool // else networks and subjects
	Of    texts.Kind
}

func listNames(lists []List) []string {
	names := make([]string, len(lists))
	for i := range lists {
		names[i] = lists[i].Name
	}
	return names
}

func (c *compiler) lookList(l Literal) error {
	lists := c.options.Lists
	if lists == nil || slices.ContainsFunc(lists, func(known List) bool { return known.Name == l.Text }) {
		return nil
	}
	if c.options.LooseLists {
		c.warn(l.Pos, "there is no list "+short(l.Text), spelling.Nearest(l.Text, listNames(lists)))
		return nil
	}
	return c.known("list", l, listNames(lists))
}

func lintListCheck(a *arguments) string {
	lists := a.compiler.options.Lists
	i := slices.IndexFunc(lists, func(l List) bool { return l.Name == a.text("list") })
	match, ok := texts.ParseMatch(a.text("match"))
	switch {
	case i < 0 || !ok:
		return ""
	case !lists[i].Texts && (match == texts.ByHost || match == texts.ByWord):
		return lists[i].Name + " is a list of networks: it has no texts in which to look up a " + a.text("match")
	case lists[i].Texts && !lists[i].Of.Fits(match):
		return lists[i].Name + " is a list of " + lists[i].Of.String() + `: nothing is found there with match="` +
			a.text("match") + `"`
	case lists[i].Texts && !a.given("attribute"):
		return lists[i].Name + " is a list of " + lists[i].Of.String() + `, and the attribute that is looked up is "ip"`
	}
	return ""
}

func buildListCheck(a *arguments) (check, error) {
	list := a.text("list")
	match := texts.ByKind
	if a.given("match") {
		if _, err := a.choice("match", "value", "domain", "word"); err != nil {
			return nil, err
		}
		match, _ = texts.ParseMatch(a.text("match"))
	}
	look := func(ctx context.Context, e *Env, r *Run, v Value) (bool, error) {
		set := e.Lists.Texts(list)
		if set == nil {
			listed, err := e.Lists.Listed(ctx, list, v)
			return !listed, err
		}
		text := v.Text
		if v.Kind != Text {
			r.buf = appendPlain(r.buf[:0], v)
			text = request.Borrow(r.buf)
		}
		entry, found := r.texts.Find(set, match, text)
		if found && r.Trace {
			r.tracef("the list %s has %s", list, entry)
		}
		return !found, nil
	}
	return overEach(a.text("attribute"), overValue(a, look), look), nil
}
