package rules

import (
	"strings"
	"testing"

	"antirobot/rules/texts"
)

func textList(t *testing.T, k texts.Kind, entries ...string) *texts.Set {
	t.Helper()
	s := texts.New(k)
	for _, e := range entries {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestListsOfTexts: what a listCheck looks up, by the kind of the list and by match.
func TestListsOfTexts(t *testing.T) {
	w := newWorld()
	w.texts = map[string]*texts.Set{
		"words": textList(t, texts.Words, "casino", "free money"), "hosts": textList(t, texts.Domains, "evil.example"),
		"keys": textList(t, texts.Keys, "1212", "10.1.2.3", "Hello, good world", "good"),
	}
	f := func(text, params string, listed bool) {
		t.Helper()
		w.values["text"] = Value{Kind: Text, Text: text}
		r := new(Run)
		r.Trace = true
		if err := runWith(t, w, r, `do listCheck(`+params+`) mark listed if listed stop as LISTED`); err != nil {
			t.Fatal(err)
		}
		if got := r.Decision() == "LISTED"; got != listed {
			t.Errorf("%q, %s: %v\n%s", text, params, got, r.Log())
		}
		if listed && !strings.Contains(r.Log(), "the list "+strings.Split(params, `"`)[1]+" has ") {
			t.Errorf("the trace does not name the entry:\n%s", r.Log())
		}
	}
	const text = `, attribute="text"`
	f("win at the kaзинo, c4sino", `list="words"`+text, true)
	f("casinos", `list="words"`+text, false)
	f("casino", `list="words", match="value"`+text, true)
	f("a casino", `list="words", match="value"`+text, false)
	f("a casino", `list="words", match="word"`+text, true)
	f("see http://www.evil.example/", `list="hosts"`+text, true)
	f("see http://www.evil.example/", `list="hosts", match="domain"`+text, true)
	f("www.evil.example", `list="hosts", match="value"`+text, false)
	f("see a.example b.evil.example/x", `list="hosts", attribute="text.link.host"`, true)
	f("no link", `list="hosts", attribute="text.link.host"`, false)
	f("Hello, good world", `list="keys"`+text, true)
	f("so good!", `list="keys", match="word"`+text, true)
	f("so good!", `list="keys"`+text, false)
	f("", `list="keys", attribute="from"`, true)
	f("", `list="keys", attribute="ip"`, true)
	f("", `list="keys", attribute="age"`, false)
	if err := runWith(t, w, new(Run), `do listCheck(list="words", match="part")`); err == nil || !strings.Contains(err.Error(), "match must be one of value, domain, word") {
		t.Errorf("%v", err)
	}
}

// runWith compiles src and runs it over w.
func runWith(t *testing.T, w *world, r *Run, src string) error {
	t.Helper()
	p, err := Compile(src, DefaultOptions())
	if err != nil {
		return err
	}
	return p.Run(t.Context(), w.env(), r)
}

// TestLintOfLists: a look-up that can never find anything is warned of.
func TestLintOfLists(t *testing.T) {
	o := DefaultOptions()
	o.Attributes = func(name string) bool { return name == "text" || name == "ip" }
	o.Lists = []List{{Name: "tor"}, {Name: "words", Texts: true, Of: texts.Words}, {Name: "keys", Texts: true, Of: texts.Keys}}
	f := func(src, want string) {
		t.Helper()
		p, err := Compile(src, o)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range p.Warnings() {
			got += w.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
	f(`do listCheck(list="tor")`, "")
	f(`do listCheck(list="tor", match="value")`, "")
	f(`do listCheck(list="tor", match="word")`, "line 1, column 4: listCheck: tor is a list of networks: it has no texts in which to look up a word")
	f(`do listCheck(list="words", attribute="text")`, "")
	f(`do listCheck(list="words")`, `line 1, column 4: listCheck: words is a list of words, and the attribute that is looked up is "ip"`)
	f(`do listCheck(list="words", attribute="text", match="domain")`, `line 1, column 4: listCheck: words is a list of words: nothing is found there with match="domain"`)
	f(`do listCheck(list="keys", attribute="text.link.host")`, "")
	f(`do listCheck(list="keys", attribute="text.link.hosts")`, "line 1, column 37: there is no attribute text.link.hosts")
	o.LooseLists = true
	f(`do listCheck(list="wordss", attribute="text")`, "line 1, column 19: there is no list wordss; did you mean words?")
	f(`do attributeCheck(attribute="country", value="DE")`, "line 1, column 29: there is no attribute country: no file in geo.files says where addresses are")
	o.Places = true
	f(`do attributeCheck(attribute="country", value="DE")`, "")
}
