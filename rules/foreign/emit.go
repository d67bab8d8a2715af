package foreign

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
)

// Result is what became of a file.
type Result struct {
	Rules  string   // for rules.text of a service
	Unsaid []string // what the rules do not say, for people
}

// node is a condition: a test, or others together.
type node struct {
	kind kind
	of   []*node

	// A test: the statement's call, the attribute that must be there (empty: none), what holds where it is not, and whether the
	// statement marks what the condition asks for, as networkCheck does.
	call, attribute string
	missing         bool
	marks           bool
}

type kind byte

const (
	test kind = iota
	allOf
	anyOf
	not
)

// writer writes statements.
type writer struct {
	strings.Builder
	tags   int
	absent map[string]string // tags that are set where an attribute is not there
	marked map[string]bool   // tags that a statement may have set
	wrote  map[string]bool   // statements that need not stand there twice
	unsaid []string
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) skip(format string, args ...any) {
	w.unsaid = append(w.unsaid, fmt.Sprintf(format, args...))
}

// tag makes a new tag.
func (w *writer) tag() string {
	w.tags++
	return "t" + strconv.Itoa(w.tags)
}

// without returns the tag that is set where an attribute is not there.
func (w *writer) without(attribute string) string {
	tag, ok := w.absent[attribute]
	if !ok {
		if w.absent == nil {
			w.absent = map[string]string{}
		}
		tag = "no" + strconv.Itoa(len(w.absent)+1)
		w.absent[attribute] = tag
		w.line("do hasAttribute(attribute=%s) mark %s", quoted(attribute), tag)
	}
	return tag
}

// fails writes statements that set tag where n does not hold.
func (w *writer) fails(n *node, tag string) {
	switch n.kind {
	case test:
		w.testFails(n, tag)
	case allOf:
		for _, k := range n.of {
			w.fails(k, tag)
		}
	case anyOf:
		tags := make([]string, len(n.of))
		for i, k := range n.of {
			tags[i] = w.tag()
			w.fails(k, tags[i])
		}
		w.mark(strings.Join(tags, ", "), tag)
	case not:
		inner := w.tag()
		w.fails(n.of[0], inner)
		w.mark("not "+inner, tag)
	}
}

func (w *writer) testFails(n *node, tag string) {
	var unless []string
	if w.marked[tag] {
		unless = []string{tag}
	}
	if n.attribute != "" && n.attribute != "path" && n.attribute != "method" { // which every request has
		absent := w.without(n.attribute)
		if !n.missing {
			w.mark(absent, tag)
		}
		unless = append(unless, absent)
	}
	if n.call == "" {
		return // being there is all that is asked for
	}
	if n.marks {
		found := w.tag()
		w.line("%sdo %s mark %s", ifNot(unless), n.call, found)
		w.mark(ifNot(append(unless, found))[len("if "):], tag)
		return
	}
	w.line("%sdo %s mark %s", ifNot(unless), n.call, tag)
	w.note(tag)
}

func ifNot(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	return "if not " + strings.Join(tags, ", ") + " "
}

// mark writes a statement that sets tag under a condition.
func (w *writer) mark(condition, tag string) {
	s := "if " + strings.TrimSpace(condition) + " do ruleFalse() mark " + tag
	if w.wrote[s] {
		return
	}
	w.note(tag)
	w.wrote[s] = true
	w.line("%s", s)
}

func (w *writer) note(tag string) {
	if w.marked == nil {
		w.marked, w.wrote = map[string]bool{}, map[string]bool{}
	}
	w.marked[tag] = true
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// quotable reports whether a text of rules can hold s.
func quotable(s string) bool {
	return !strings.HasSuffix(s, `\`) && !strings.Contains(s, `\"`) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// there is a test that an attribute is there.
func there(attribute string) *node { return &node{attribute: attribute} }

// equal is a test of a text; an attribute that is not there is empty.
func equal(attribute, value string) (*node, error) {
	if !quotable(value) {
		return nil, fmt.Errorf("%q can't stand in a text of rules", value)
	}
	return &node{attribute: attribute, missing: value == "", call: "attributeCheck(attribute=" + quoted(attribute) + ", value=" + quoted(value) + ")"}, nil
}

// matches is a test of a regexp of Go's anywhere in an attribute; one that is not there is empty.
func matches(attribute, expr string) (*node, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	std, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	begins := tree.Op == syntax.OpBeginText || tree.Op == syntax.OpConcat && len(tree.Sub) > 0 && tree.Sub[0].Op == syntax.OpBeginText
	if expr = tree.String(); !begins { // rules match at the start
		expr = "(?s:.*?)(?:" + expr + ")"
	}
	if !quotable(strings.ReplaceAll(expr, `"`, "")) {
		return nil, fmt.Errorf("%q can't stand in a text of rules", expr)
	}
	return &node{attribute: attribute, missing: std.MatchString(""), call: "regexpCheck(regexp=" + quoted(expr) + ", attribute=" + quoted(attribute) + ")"}, nil
}

// comment makes one line of what others wrote.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
}
