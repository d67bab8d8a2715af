package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// judge runs src over w and returns decision, tags, score, or the code of the error.
func judge(t *testing.T, src string, w *world) string {
	t.Helper()
	o := DefaultOptions()
	o.Formulas = w
	p, err := Compile(src, o)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	var r Run
	if err := p.Run(context.Background(), w.env(), &r); err != nil {
		var f *Fault
		if !errors.As(err, &f) {
			t.Fatalf("%s: not a Fault: %v", src, err)
		}
		return fmt.Sprint(f.Code)
	}
	out := r.Decision()
	if tags := r.AppendTags(nil); len(tags) > 0 {
		out += " " + strings.Join(tags, ",")
	}
	if r.Score() != 0 {
		out += fmt.Sprintf(" %g", r.Score())
	}
	return out
}

// TestFlow is how statements follow each other.
func TestFlow(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"end", `do ruleTrue()`, "UNKNOWN"},
		{"true does not mark", `do ruleTrue() mark a`, "UNKNOWN"},
		{"false marks", `do ruleFalse() mark a, b`, "UNKNOWN a,b"},
		{"marked twice", `do ruleFalse() mark a, a do ruleFalse() mark b, a`, "UNKNOWN a,b"},
		{"stop", `stop as X stop as Y`, "X"},
		{"stop keeps tags", `do ruleFalse() mark a stop as X`, "X a"},
		{"if all", `do ruleFalse() mark a if a, b stop as X stop as Y`, "Y a"},
		{"if all holds", `do ruleFalse() mark b, a if a, b stop as X`, "X b,a"},
		{"if none", `do ruleFalse() mark a if not a, b stop as X stop as Y`, "Y a"},
		{"if none holds", `do ruleFalse() mark c if not a, b stop as X`, "X c"},
		{"nota is not not a", `if nota stop as X stop as Y`, "Y"},
		{"tags have case", `do ruleFalse() mark A if a stop as X`, "UNKNOWN A"},
		{"skip", `skip to 5 stop as X 5: stop as Y`, "Y"},
		{"skip not taken", `if a skip to 5 stop as X 5: stop as Y`, "X"},
		{"skip to the next later of two", `5: do ruleTrue() skip to 5 stop as W 5: do ruleFalse() mark here 5: do ruleFalse() mark there`, "UNKNOWN here,there"},
		{"if of the target is evaluated", `skip to 5 5: if a stop as X stop as Y`, "Y"},
		{"label falls through", `5: 6: stop as X`, "syntax"},
		{"no later label", `5: do ruleTrue() skip to 5`, "2004"},
		{"own label is not later", `5: skip to 5`, "2004"},
		{"no label at all", `skip to 9 stop as X`, "2004"},
		{"a skip not reached is not an error", `stop as X skip to 9`, "X"},
		{"a skip whose if fails is not an error", `if a skip to 9 stop as X`, "X"},
		{"labels by number", `skip to 07 stop as X 7: stop as Y`, "Y"},
		{"an error ends", `do attributeCheck(attribute="no", value=1) stop as X`, "2006"},
		{"score of the FALSE", `do ruleFalse() score 1.5 do ruleTrue() score 10 do ruleFalse() mark a score -0.25`, "UNKNOWN a 1.25"},
		{"scoreOver at the limit", `do ruleFalse() score 100 do scoreOver() mark over`, "UNKNOWN 100"},
		{"scoreOver above", `do ruleFalse() score 100.5 do scoreOver() mark over`, "UNKNOWN over 100.5"},
		{"scoreOver own limit", `do ruleFalse() score 2 do scoreOver(limit=1.5) mark over`, "UNKNOWN over 2"},
		{"scoreOver negative", `do scoreOver(limit=-1) mark over`, "UNKNOWN over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "syntax" {
				if _, err := Parse(c.src); err == nil {
					t.Fatal("parsed")
				}
				return
			}
			if got := judge(t, c.src, newWorld()); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.src, got, c.want)
			}
		})
	}
}

// TestRules is the table of what each rule says: T, F, or the code of its error.
func TestRules(t *testing.T) {
	const text = "Привет, Мир"
	const long = "the quick brown fox"
	cases := []struct{ text, rule, want string }{
		{"x", `ruleTrue()`, "T"},
		{"x", `ruleFalse()`, "F"},

		{text, `regexpCheck(regexp="Прив")`, "T"},
		{text, `regexpCheck(regexp="прив")`, "F"},
		{text, `regexpCheck(regexp="(?i)прив")`, "T"},
		{text, `regexpCheck(regexp="Мир")`, "F"},
		{text, `regexpCheck(regexp=".*Мир")`, "T"},
		{text, `regexpCheck(regexp="x|.*Мир")`, "T"},
		{text, `regexpCheck(regexp="Мир|x")`, "F"},
		{text, `regexpCheck(regexp="\w+, \w+$")`, "T"},
		{text, `regexpCheck(regexp="\w+$")`, "F"},
		{text, `regexpCheck(regexp="")`, "T"},
		{text, `regexpCheck(regexp="\W")`, "F"},
		{text, `regexpCheck(regexp="[\W]*П")`, "T"},
		{text, `regexpCheck(regexp="[^\W\d]+,")`, "T"},
		{text, `regexpCheck(regexp="[а-яА-Я]{6},\s")`, "T"},
		{text, `regexpCheck(regexp="Привет\b")`, "T"},
		{text, `regexpCheck(regexp="Приве\b")`, "F"},
		{text, `regexpCheck(regexp="Приве\Bт")`, "T"},
		{text, `regexpCheck(regexp=".*\bМир\b")`, "T"},
		{text, `regexpCheck(regexp="(?i).*\bМИР\Z")`, "T"},
		{text, `regexpCheck(regexp="\u041f\x{440}")`, "T"},
		{text, `regexpCheck(regexp="(?u)При(?#комментарий)вет")`, "T"},
		{text, `regexpCheck(regexp="(?P<first>\w+)")`, "T"},
		{text, `regexpCheck(regexp=".{,5}в")`, "T"},
		{"a\nb", `regexpCheck(regexp="a.b")`, "F"},
		{"a\nb", `regexpCheck(regexp="(?s)a.b")`, "T"},
		{"a\nb", `regexpCheck(regexp="b")`, "F"},
		{"a\nb", `regexpCheck(regexp="(?m)a$")`, "T"},
		{"a\nb", `regexpCheck(regexp="(?m)^b")`, "F"},
		{"a b", `regexpCheck(regexp="a\sb")`, "T"},
		{"a b", `regexpCheck(regexp="a\Sb")`, "F"},
		{"٣", `regexpCheck(regexp="\d")`, "T"},
		{"5", `regexpCheck(regexp="[\D]")`, "F"},
		{"]x", `regexpCheck(regexp="[]x]+$")`, "T"},
		{"[", `regexpCheck(regexp="[[]$")`, "T"},
		{`say "hi"`, `regexpCheck(regexp="say \"hi\"$")`, "T"},
		{`a\b`, `regexpCheck(regexp="a\\b$")`, "T"},
		{"", `regexpCheck(regexp="$")`, "T"},
		{"", `regexpCheck(regexp="\b")`, "F"},
		{text, `regexpCheck(regexp="a", attribute="other")`, "2006"},
		{text, `regexpCheck(regexp="a", attribute="from")`, "1005"},
		{text, `regexpCheck(regexp="a", attribute="ip")`, "1005"},
		{"x", `regexpCheck(regexp="H", attribute="title")`, "T"},

		{text, `lengthCheck()`, "T"},
		{text, `lengthCheck(minLength=11, maxLength=11)`, "T"},
		{text, `lengthCheck(minLength=12)`, "F"},
		{text, `lengthCheck(maxLength=10)`, "F"},
		{text, `lengthCheck(minLength=0)`, "T"},
		{"", `lengthCheck(minLength=1)`, "F"},
		{"", `lengthCheck(maxLength=0)`, "T"},
		{"x", `lengthCheck(attribute="no")`, "T"},
		{"x", `lengthCheck(attribute="no", maxLength=1)`, "2006"},
		{"x", `lengthCheck(attribute="from", maxLength=1)`, "1005"},

		{text, `attributeCheck(attribute="text", value="Привет, Мир")`, "T"},
		{text, `attributeCheck(attribute="text", value="привет, мир")`, "F"},
		{"1212", `attributeCheck(attribute="text", value=1212)`, "F"},
		{"1212", `attributeCheck(attribute="text", value="1212")`, "T"},
		{"x", `attributeCheck(attribute="from", value=1212)`, "T"},
		{"x", `attributeCheck(attribute="from", value="1212")`, "F"},
		{"x", `attributeCheck(attribute="from", value=1212.5)`, "F"},
		{"x", `attributeCheck(attribute="age", value=-3)`, "T"},
		{"x", `attributeCheck(attribute="ip", value="10.1.2.3")`, "T"},
		{"x", `attributeCheck(attribute="ip", value="::ffff:10.1.2.3")`, "T"},
		{"x", `attributeCheck(attribute="ip", value="10.1.2.4")`, "F"},
		{"x", `attributeCheck(attribute="ip", value=10)`, "F"},
		{"x", `attributeCheck(attribute="no", value=10)`, "2006"},

		{"x", `hasAttribute(attribute="from")`, "T"},
		{"x", `hasAttribute(attribute="no")`, "F"},

		{"aaaaaaaaaaaaaaaaaaaa", `messageFloodCheck()`, "F"},
		{"AAAA aaaa AaAa aaaa", `messageFloodCheck()`, "F"},
		{"aaaa aaaa aaaa aaa", `messageFloodCheck()`, "T"}, // 15 without white space
		{"aaaa aaaa aaaa aaa", `messageFloodCheck(minLength=15)`, "F"},
		{"ололололололололо", `messageFloodCheck()`, "F"},
		{"хахахахахахахахахаха!", `messageFloodCheck(maxVariance=30)`, "F"},
		{"хахахахахахахахахаха!", `messageFloodCheck()`, "T"},
		{"the quick brown fox jumps over the lazy dog", `messageFloodCheck()`, "T"},
		{"aa", `messageFloodCheck(minLength=0)`, "T"},
		{"", `messageFloodCheck(minLength=0)`, "T"},
		{"aaaa", `messageFloodCheck(minLength=0, minMean=2)`, "T"},   // two of one trigram: the mean is 2
		{"aaaa", `messageFloodCheck(minLength=0, minMean=1.9)`, "F"}, // fractions count
		{"abcabc", `messageFloodCheck(minLength=0, minMean=1.3, maxVariance=0.34)`, "F"},
		{"abcabc", `messageFloodCheck(minLength=0, minMean=1.3, maxVariance=0.33)`, "T"}, // abc 2, bca 1, cab 1: 1/3
		{"aaaaaaaaaaaaaaaaaaaa", `messageFloodCheck(attribute="from")`, "1005"},
		{"aaaaaaaaaaaaaaaaaaaa", `messageFloodCheck(attribute="no")`, "2006"},

		{"x", `messageFrequencyCheck()`, "T"},
		{long, `messageFrequencyCheck(count=0)`, "F"},
		{"1234567890", `messageFrequencyCheck(count=0)`, "T"}, // not longer than 10
		{"12345678901", `messageFrequencyCheck(count=0)`, "F"},
		{"приветприв", `messageFrequencyCheck(count=0)`, "T"}, // code points, not bytes
		{long, `messageFrequencyCheck(storage="none")`, "2003"},
		{long, `messageFrequencyCheck(attribute="no")`, "2006"},
		{long, `messageFrequencyCheck(attribute="from")`, "1005"},
		{"x", `userFrequencyCheck(count=0)`, "F"},
		{"x", `userFrequencyCheck(attribute="ip", count=1)`, "T"},
		{"x", `userFrequencyCheck(attribute="no")`, "2006"},
		{"x", `userFrequencyCheck(timeout=0.5)`, "T"},

		{"spam", `modelClassify()`, "F"},
		{"good", `modelClassify()`, "T"},
		{"good", `modelClassify(model="from")`, "2005"},
		{"good", `modelClassify(attribute="title")`, "T"},
		{"good", `modelClassify(attribute="no")`, "2006"},
		{"x", `modelTrain()`, "T"},
		{"x", `modelTrain(marker="bad", attribute="no")`, "2006"},
		{"spam", `modelClassify(limit=0.74)`, "F"},
		{"spam", `modelClassify(limit=0.75)`, "T"},
		{"x", `messageLogPut()`, "T"},

		{"x", `scoreOver()`, "T"},
		{"x", `nearDuplicateCheck(count=0)`, "T"},
		{"one two three four", `nearDuplicateCheck(count=0, minWords=4)`, "F"},
		{"one two three four", `nearDuplicateCheck(count=0, minWords=4, words=5)`, "T"},
		{"x", `networkCheck(networks="10.0.0.0/8")`, "F"},
		{"x", `networkCheck(networks="192.168.0.0/16, 10.1.2.3")`, "F"},
		{"x", `networkCheck(networks="192.168.0.0/16 ::/0")`, "T"},
		{"x", `networkCheck(networks="::ffff:10.0.0.0/104")`, "F"},
		{"x", `networkCheck(networks="::ffff:10.1.2.3")`, "F"},
		{"x", `networkCheck(networks="10.0.0.0/8", attribute="no")`, "2006"},
		{"x", `networkCheck(networks="10.0.0.0/8", attribute="text")`, "1005"},
		{"x", `listCheck(list="block")`, "T"},
		{"x", `counterCheck(type=14, limit=5, attribute="from")`, "T"},
		{"x", `counterCheck(type=14, limit=4.5, attribute="from")`, "F"},
		{"x", `counterShareCheck(type=14, share=0.99, attribute="from")`, "F"},
		{"x", `counterShareCheck(type=14, share=0.995, attribute="from")`, "T"},
		{"x", `counterShareCheck(type=14, minimum=101, attribute="from")`, "T"},
		{"x", `counterShareCheck(type=14)`, "2006"},
		{"x", `counterAdd(type=14, attribute="from")`, "T"},
		{"x", `counterAddPair(type=30, attribute="from", unique="ip")`, "T"},
		{"x", `counterMark(type=14, as="spam", attribute="from")`, "T"},
		{"x", `formulaCheck(formula="f", limit=1)`, "T"},
		{"x", `formulaCheck(formula="f", limit=0.4)`, "F"},
	}
	cases = append(cases, generalCases()...)
	for _, c := range cases {
		w := newWorld()
		w.values["text"] = Value{Kind: Text, Text: c.text}
		w.values["title"] = Value{Kind: Text, Text: "Hi"}
		w.counter, w.bad, w.judged = 5, 99, 100
		got := judge(t, "do "+c.rule+" mark F if F stop as F stop as T", w)
		if got, _, _ = strings.Cut(got, " "); got != c.want {
			t.Errorf("%q: %s\n got %s, want %s", c.text, c.rule, got, c.want)
		}
	}
	for _, r := range table() {
		if !slices.ContainsFunc(cases, func(c struct{ text, rule, want string }) bool { return strings.HasPrefix(c.rule, r.name+"(") }) {
			t.Errorf("no case for %s", r.name)
		}
	}
}

func TestEffects(t *testing.T) {
	w := newWorld()
	judge(t, `do ruleFalse() mark b, a do messageLogPut(log="log", tag="first") do messageLogPut() do modelTrain() do modelTrain(marker="spam")
		do counterAdd(type=14, attribute="from", prefix="p") do counterAddPair(type=30, attribute="from", unique="age")
		do counterMark(type=14, attribute="from", prefix="p")`, w)
	if want := []string{"log|first|b,a", "messageLog||b,a"}; !slices.Equal(w.logged, want) {
		t.Errorf("logged %q, want %q: the tag is the entry's alone", w.logged, want)
	}
	if want := []string{"good:Hello, good world", "bad:Hello, good world"}; !slices.Equal(w.trained, want) {
		t.Errorf("trained %q", w.trained)
	}
	if len(w.adds) != 3 || w.adds[0] == w.adds[1] || w.adds[2] != w.adds[0]+":1" {
		t.Errorf("counters %q", w.adds)
	}
}

func TestTrace(t *testing.T) {
	p, err := Compile("do lengthCheck(minLength=1) mark invalid\nif invalid stop as INVALID\ndo ruleFalse() mark odd score 2\nif odd skip to 5\n5: do attributeCheck(attribute=\"no\", value=1)", DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	r := Run{Trace: true}
	err = p.Run(context.Background(), newWorld().env(), &r)
	if err == nil || err.Error() != "line 5: there is no attribute no" {
		t.Errorf("error %v", err)
	}
	want := `line 1: do lengthCheck(minLength=1) mark invalid: TRUE
line 2: if invalid stop as INVALID: passed over
line 3: do ruleFalse() mark odd score 2: FALSE, marked, score 2
line 4: if odd skip to 5
line 5: 5: do attributeCheck(attribute="no", value=1): error: there is no attribute no
`
	if r.Log() != want {
		t.Errorf("trace\n%s\nwant\n%s", r.Log(), want)
	}
	if fired := r.AppendFired(nil); !slices.Equal(fired, []uint64{1 << 2}) {
		t.Errorf("fired statements %b", fired)
	}
}

// TestBigRegexps checks that a text can't make compiling take long.
func TestBigRegexps(t *testing.T) {
	for _, expr := range []string{`(?i)[\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W][\W]`, `\pL{1000}`, strings.Repeat("ж", 6000)} {
		if _, _, err := compileRegexp(expr, 1<<20); !errors.Is(err, errTooBig) {
			t.Errorf("%s: %v", short(expr), err)
		}
	}
}

// TestDoc compares docs/rules.md with the table; run with UPDATE=1 to write it.
func TestDoc(t *testing.T) {
	var b strings.Builder
	if err := WriteDoc(&b); err != nil {
		t.Fatal(err)
	}
	const name = "../docs/rules.md"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("docs/rules.md is not what the table says: run UPDATE=1 go test ./rules -run TestDoc")
	}
}

// TestStop says which statement decided, and which were FALSE.
func TestStop(t *testing.T) {
	p, err := Compile("do ruleTrue()\ndo ruleFalse() mark a do ruleFalse()\nif a stop as SPAM\nstop as OK", DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var r Run
	if r.begin(p); r.Stop() != -1 {
		t.Errorf("stop %d before the run", r.Stop())
	}
	if err := p.Run(context.Background(), newWorld().env(), &r); err != nil {
		t.Fatal(err)
	}
	line, text := p.Line(r.Stop())
	if r.Stop() != 3 || line != 3 || text != "if a stop as SPAM" {
		t.Errorf("statement %d, line %d, %q", r.Stop(), line, text)
	}
	if fired := r.AppendFired(nil); !slices.Equal(fired, []uint64{0b110}) {
		t.Errorf("fired %b", fired)
	}
}

// TestFormula: what a formula reads is the score, the tags, and the numbers that rules found.
func TestFormula(t *testing.T) {
	w := newWorld()
	o := DefaultOptions()
	o.Formulas = w
	p, err := Compile(`do ruleFalse() mark a score 0.25
do userFrequencyCheck(count=0) mark often, b score 1
do counterCheck(type=14, limit=100, attribute="from") mark busy
do messageFrequencyCheck(minLength=1000) mark rare
do formulaCheck(formula="f", limit=1.7) mark bad
do formulaCheck(formula="f", limit=1.8) mark worse`, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.factors, []string{"score", "tag_a", "tag_often", "tag_b", "tag_busy", "tag_rare", "tag_bad", "tag_worse", "count_often", "count_b", "count_busy", "count_rare"}; !slices.Equal(got, want) {
		t.Errorf("factors %q", got)
	}
	w.counter = 7
	var r Run
	for n := range 3 {
		if err := p.Run(context.Background(), w.env(), &r); err != nil {
			t.Fatal(err)
		}
		if got := r.AppendTags(nil); !slices.Equal(got, []string{"a", "often", "b", "bad"}) {
			t.Errorf("tags %q", got)
		}
		want := []float32{1.25, 1, 1, 1, 0, 0, 1, 0, float32(n + 1), float32(n + 1), 7}
		if !slices.Equal(w.factors[:11], want) || w.factors[11] == w.factors[11] {
			t.Errorf("factors %v, want %v and an unknown one", w.factors, want)
		}
	}
}
