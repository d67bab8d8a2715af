package rules

import (
	"cmp"
	"context"
	"slices"

	"antirobot/request"
	"antirobot/rules/texts"
	"antirobot/spelling"
)

// Warnings returns probable mistakes, in the order of the text.
func (p *Program) Warnings() []SyntaxError { return slices.Clone(p.warned) }

func (c *compiler) warn(at Pos, text, hint string) {
	c.program.warned = append(c.program.warned, SyntaxError{at, text, hint})
}

func (c *compiler) look(d *param, l Literal) error {
	o := &c.options
	var known []string
	switch d.kind {
	case kindAttribute:
		c.lookAttribute(l, l.Text)
		return nil
	case kindAttributes:
		for _, name := range attributeNames(l.Text) {
			if name == "" {
				return &SyntaxError{Pos: l.Pos, Text: d.name + " has an empty name"}
			}
			c.lookAttribute(l, name)
		}
		return nil
	case kindStorage:
		known = o.Storages
	case kindModel:
		known = o.Models
	case kindLog:
		known = o.Logs
	}
	if known != nil && !slices.Contains(known, l.Text) {
		c.warn(l.Pos, "there is no "+d.name+" "+short(l.Text), spelling.Nearest(l.Text, known))
	}
	return nil
}

func (c *compiler) lookAttribute(l Literal, name string) {
	known := c.options.Attributes
	if known == nil || known(name) {
		return
	}
	switch text, _, ok := ofLinks(name); {
	case ok && known(text):
	case (name == attributeCountry || name == attributeASN) && known(attributeIP):
		if !c.options.Places {
			c.warn(l.Pos, "there is no attribute "+name+": no file in geo.files says where addresses are", "")
		}
	default:
		c.warn(l.Pos, "there is no attribute "+short(name), "")
	}
}

func (c *compiler) lint(s *Script) {
	c.lintFlow(s)
	c.lintTags(s)
	c.lintCounts(s)
	slices.SortStableFunc(c.program.warned, func(a, b SyntaxError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

// lintFlow finds unreachable statements. Control only goes forward, so one pass is enough.
func (c *compiler) lintFlow(s *Script) {
	reached := make([]bool, len(s.Statements)+1)
	reached[0] = true
	told := false
	for i := range s.Statements {
		st, in := &s.Statements[i], &c.program.code[i]
		if st.Action == Skip && in.target < 0 {
			c.warn(st.Pos, "there is no label "+st.Target+" later in the rules", "")
		}
		if !reached[i] {
			if !told {
				c.warn(st.Pos, "this statement is never reached", "")
			}
			told = true
			continue
		}
		told = false
		if st.Action == Skip && in.target >= 0 {
			reached[in.target] = true
		}
		if st.Action == Do || st.If != nil {
			reached[i+1] = true
		}
	}
}

var keywords = [...]string{"not", "if", "do", "skip", "stop", "mark", "score"}

func (c *compiler) lintTags(s *Script) {
	set := make(map[string]bool)
	for i := range s.Statements {
		st := &s.Statements[i]
		for _, t := range st.If {
			switch {
			case set[t.Text]:
			case t.Text == "not" && !st.Not && len(st.If) == 1:
				c.warn(t.Pos, "if not without a tag asks for a tag that is called not, and nothing above sets it", "")
			case slices.Contains(keywords[:], t.Text):
				c.warn(t.Pos, "no rule above sets the tag "+t.Text+", which is also a keyword", "")
			default:
				known := make([]string, 0, len(set))
				for name := range set {
					known = append(known, name)
				}
				slices.Sort(known)
				c.warn(t.Pos, "no rule above sets the tag "+short(t.Text), spelling.Nearest(t.Text, known))
			}
		}
		for _, t := range st.Mark {
			set[t.Text] = true
		}
	}
}

func (c *compiler) lintCounts(s *Script) {
	added := make(map[string]bool)
	for _, script := range append([]*Script{s}, c.options.Elsewhere...) {
		for i := range script.Statements {
			switch st := &script.Statements[i]; st.Rule.Text {
			case "eventAdd":
				added["event "+st.value("event")] = true
			case "counterAdd", "counterAddPair":
				added["counter "+st.value("type")+st.value("prefix")] = true
			case "counterMark":
				added["share "+st.value("type")+st.value("prefix")] = true
			}
		}
	}
	for i := range s.Statements {
		st := &s.Statements[i]
		switch name := st.Rule.Text; {
		case name == "eventCheck" && !added["event "+st.value("event")]:
			c.warn(st.Rule.Pos, "no eventAdd here counts the event "+short(st.value("event")), "")
		case name == "counterCheck" && st.value("prefix") == "" && !added["counter "+st.value("type")]:
			c.warn(st.Rule.Pos, "no rule here adds to the counter of type "+short(st.value("type")), "")
		case name == "counterShareCheck" && st.value("prefix") == "" && !added["share "+st.value("type")]:
			c.warn(st.Rule.Pos, "no counterMark here judges the type "+short(st.value("type")), "")
		}
	}
}

func (s *Statement) value(name string) string {
	for _, p := range s.Params {
		if p.Name.Text == name {
			return p.Value.Text
		}
	}
	return ""
}

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
