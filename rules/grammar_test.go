package rules

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestGrammar has a case for every production, right and wrong. want is the canonical form, or the place and text of
// the error.
func TestGrammar(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"do", `do ruleTrue()`, "do ruleTrue()\n"},
		{"no space", `do ruleTrue()mark a`, "do ruleTrue() mark a\n"},
		{"space everywhere", " \t\r\n 7 : if not a ,b do f ( x = 1 , y = \"z\" ) mark c , d ", "7: if not a, b do f(x=1, y=\"z\") mark c, d\n"},
		{"one line", `do f() do g() stop as A`, "do f()\ndo g()\nstop as A\n"},
		{"mark then label", `do f() mark a 5: do g()`, "do f() mark a\n5: do g()\n"},
		{"label without space", "5:do f()", "5: do f()\n"},
		{"label zeros", "007: skip to 08", "7: skip to 8\n"},
		{"if", `if a do f()`, "if a do f()\n"},
		{"if not", `if not a, b_1 stop as X9`, "if not a, b_1 stop as X9\n"},
		{"nota is a tag", `if nota do f()`, "if nota do f()\n"},
		{"nota list", `if nota, b do f()`, "if nota, b do f()\n"},
		{"tag do", `if do do f()`, "if do do f()\n"},
		{"tag not do", `if not do do f()`, "if not do do f()\n"},
		{"tag not alone", `if not do f()`, "if not do f()\n"},
		{"tag not in a list", `if not, a do f()`, "if not, a do f()\n"},
		{"tag not later", `if a, not do f()`, "if a, not do f()\n"},
		{"not not", `if not not do f()`, "if not not do f()\n"},
		{"tag not before skip", `if not skip to 5`, "if not skip to 5\n"},
		{"tag not before stop", `if not stop as X`, "if not stop as X\n"},
		{"tags stop and skip", `if stop, skip stop as X`, "if stop, skip stop as X\n"},
		{"not stop stop", `if not stop stop as X`, "if not stop stop as X\n"},
		{"tag if", `if if do f()`, "if if do f()\n"},
		{"mark mark", `do f() mark mark`, "do f() mark mark\n"},
		{"mark do", `do f() mark do do g()`, "do f() mark do\ndo g()\n"},
		{"mark score score", `do f() mark score score 2`, "do f() mark score score 2\n"},
		{"tag of digits", `if 5 do f() mark 6, 7`, "if 5 do f() mark 6, 7\n"},
		{"names like keywords", `do do() do skip() do stop(as=1)`, "do do()\ndo skip()\ndo stop(as=1)\n"},
		{"decision like a keyword", `stop as stop stop as as`, "stop as stop\nstop as as\n"},
		{"decision of digits", `stop as 42`, "stop as 42\n"},
		{"score", `do f() score 1.5`, "do f() score 1.5\n"},
		{"score before mark", `do f() score -2 mark a`, "do f() mark a score -2\n"},
		{"numbers", `do f(a=0, b=10, c=1.25, d=-7, e=-0.5, g=007)`, "do f(a=0, b=10, c=1.25, d=-7, e=-0.5, g=007)\n"},
		{"texts", `do f(a="", b=" x ", c="п#:,()=", d="\d+\\")`, `do f(a="", b=" x ", c="п#:,()=", d="\d+\\")` + "\n"},
		{"quote", `do f(a="say \"hi\"")`, `do f(a="say \"hi\"")` + "\n"},
		{"backslash pair before the quote", `do f(a="\\") do g()`, `do f(a="\\")` + "\ndo g()\n"},
		{"newline in a text", "do f(a=\"x\ny\")", "do f(a=\"x\ny\")\n"},
		{"comments", "# first\ndo f( # in\n) # after\n#last", "do f()\n"},
		{"comment at the end without newline", "do f()#x", "do f()\n"},
		{"hash in a text", `do f(a="#b")`, `do f(a="#b")` + "\n"},
		{"BOM", "\ufeffdo f()", "do f()\n"},
		{"statement over lines", "if\na\ndo\nf\n(\n)\nmark\nb", "if a do f() mark b\n"},

		{"empty", "", `1:1: there is no rule: do, skip or stop is expected`},
		{"blank", " \n\t ", `2:3: there is no rule: do, skip or stop is expected`},
		{"only a comment", "# nothing", `1:10: there is no rule: do, skip or stop is expected`},
		{"stop without as", `stop SPAM`, `1:6: expected "as", found "SPAM"`},
		{"stop as nothing", "stop as", `1:8: expected a decision, which is of letters and digits, found the end`},
		{"decision with _", "stop as A_B", `1:9: expected a decision, which is of letters and digits, found "A_B"`},
		{"decision non-ASCII", "stop as СПАМ", `1:9: expected a decision, which is of letters and digits, found "С"`},
		{"skip without to", "skip 5", `1:6: expected "to", found "5"`},
		{"skip to a word", "skip to end", `1:9: expected a label, which is of digits, found "end"`},
		{"skip glued", "skip to5", `1:6: expected "to", found "to5"; did you mean to?`},
		{"label alone", "5:", `1:3: expected if, do, skip or stop, found the end`},
		{"label without colon", "5 do f()", `1:3: expected ":" after the label, found "do"`},
		{"label of letters", "a: do f()", `1:1: expected a rule: a label, if, do, skip or stop, found "a"`},
		{"if without tags", "if", `1:3: expected a tag, which is of letters, digits and _, found the end`},
		{"if not without tags", "if not", `1:7: expected a tag, which is of letters, digits and _, found the end`},
		{"if do f()", "if do f()", `1:7: expected "," or do, skip or stop, found "f"`},
		{"if without a statement", "if a", `1:5: expected "," or do, skip or stop, found the end`},
		{"trailing comma in tags", "if a, do f()", `1:10: expected "," or do, skip or stop, found "f"`},
		{"tags without comma", "if a b do f()", `1:6: expected "," or do, skip or stop, found "b"`},
		{"tag with a dash", "if a-b do f()", `1:5: expected "," or do, skip or stop, found "-"`},
		{"tag non-ASCII", "do f() mark спам", `1:13: expected a tag, which is of letters, digits and _, found "с"`},
		{"two marks", "do f() mark a mark b", `1:15: expected a rule: a label, if, do, skip or stop, found "mark"`},
		{"mark without tags", "do f() mark", `1:12: expected a tag, which is of letters, digits and _, found the end`},
		{"two scores", "do f() score 1 score 2", `1:16: expected a rule: a label, if, do, skip or stop, found "score"`},
		{"score without a number", "do f() score x", `1:14: expected a number or a text in double quotes, found "x"`},
		{"do without a name", "do ()", `1:4: expected the name of a rule, which is of letters and digits, found "("`},
		{"name with _", "do a_b()", `1:4: expected the name of a rule, which is of letters and digits, found "a_b"`},
		{"no parentheses", "do f mark a", `1:6: expected "(", found "mark"`},
		{"open parenthesis", "do f(", `1:6: expected a parameter or ")", found the end`},
		{"parameter without value", "do f(a)", `1:7: expected "=" after the parameter, found ")"`},
		{"parameters without comma", "do f(a=1 b=2)", `1:10: expected "," or ")", found "b"`},
		{"trailing comma", "do f(a=1,)", `1:10: expected a parameter, found ")"`},
		{"leading comma", "do f(,a=1)", `1:6: expected a parameter or ")", found ","`},
		{"value is a word", "do f(a=b)", `1:8: expected a number or a text in double quotes, found "b"`},
		{"number and letters", "do f(a=10x)", `1:8: expected a number or a text in double quotes, found "10x"`},
		{"point without digits", "do f(a=1.)", `1:10: expected digits after the point, found ")"`},
		{"lone minus", "do f(a=-)", `1:8: expected a number or a text in double quotes, found "-"`},
		{"single quotes", "do f(a='b')", `1:8: expected a number or a text in double quotes, found "'"`},
		{"open text", "do g()\ndo f(a=\"b)\ndo h()", `2:8: the text has no closing quote`},
		{"capital keyword", "DO f()", `1:1: expected a rule: a label, if, do, skip or stop, found "DO"; did you mean do?`},
		{"misspelt keyword", "do f()\n  sotp as OK", `2:3: expected a rule: a label, if, do, skip or stop, found "sotp"; did you mean stop?`},
		{"semicolon", "do f();", `1:7: expected a rule: a label, if, do, skip or stop, found ";"`},
		{"columns count code points", `do f(a="жук") ж`, `1:15: expected a rule: a label, if, do, skip or stop, found "ж"`},
		{"not UTF-8", "do f()\n \xff", `2:2: the text is not UTF-8`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse(c.src)
			if err != nil {
				if got := errorText(err); got != c.want {
					t.Fatalf("error\n got %s\nwant %s", got, c.want)
				}
				return
			}
			if got := s.String(); got != c.want {
				t.Fatalf("\n got %q\nwant %q", got, c.want)
			}
			again, err := Parse(s.String())
			if err != nil || again.String() != s.String() {
				t.Fatalf("the canonical form does not come back: %v", err)
			}
		})
	}
}

func errorText(err error) string {
	var e *SyntaxError
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Col) + ": " + e.Text
	if e.Hint != "" {
		text += "; did you mean " + e.Hint + "?"
	}
	return text
}

// TestBuild has what only compiling finds, with its place.
func TestBuild(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		if _, err := Parse(src); err != nil {
			t.Errorf("%s: the syntax alone is refused: %v", src, err)
		}
		_, err := Compile(src, DefaultOptions())
		got := ""
		if err != nil {
			got = errorText(err)
		}
		if got != want {
			t.Errorf("%s\n got %q\nwant %q", src, got, want)
		}
	}
	f("do lenghtCheck(minLength=1)", "1:4: there is no rule lenghtCheck; did you mean lengthCheck?")
	f("do regexpcheck(regexp=\"a\")", "1:4: there is no rule regexpcheck; did you mean regexpCheck?")
	f("do somethingElse()", "1:4: there is no rule somethingElse")
	f("do ruleTrue()\n do lengthCheck(minlength=1)", "2:17: lengthCheck has no parameter minlength; did you mean minLength?")
	f("do ruleTrue(x=1)", "1:13: ruleTrue has no parameter x")
	f("do lengthCheck(minLength=\"1\")", "1:26: minLength must be a whole number, zero or more")
	f("do lengthCheck(minLength=1.5)", "1:26: minLength must be a whole number, zero or more")
	f("do lengthCheck(minLength=-1)", "1:26: minLength must be a whole number, zero or more")
	f("do lengthCheck(attribute=1)", "1:26: attribute must be a text in double quotes")
	f("do lengthCheck(minLength=1, minLength=2)", "1:29: the parameter minLength occurs twice")
	f("do regexpCheck()", "1:4: regexpCheck needs the parameter regexp")
	f("do attributeCheck(attribute=\"a\")", "1:4: attributeCheck needs the parameter value")
	f("do messageFloodCheck(minMean=\"1\")", "1:30: minMean must be a number")
	f("do userFrequencyCheck(timeout=-1)", "1:31: timeout must be a number of seconds")
	f("do lengthCheck(minLength=99999999999999999999)", "1:26: minLength must be a whole number, zero or more")
	f(`do regexpCheck(regexp="a(b")`, "1:24: regexp: missing closing )")
	f(`do regexpCheck(regexp="a(?=b)")`, "1:25: regexp: look-ahead is not supported: regexps take linear time")
	f(`do regexpCheck(regexp="\"\"(?<!b)")`, "1:28: regexp: look-behind is not supported: regexps take linear time")
	f(`do regexpCheck(regexp="(a)\1")`, "1:27: regexp: a back-reference is not supported: regexps take linear time")
	f(`do regexpCheck(regexp="(?P<x>a)(?P=x)")`, "1:32: regexp: a back-reference is not supported: regexps take linear time")
	f(`do regexpCheck(regexp="ab[c")`, "1:26: regexp: the class in brackets is not closed")
	f(`do regexpCheck(regexp="ж*+")`, "1:25: regexp: invalid nested repetition operator: *+")
	f(`do regexpCheck(regexp="x{1001}")`, "1:25: regexp: invalid repeat count: {1001}")
	f(`do networkCheck(networks="10.0.0.0/8, 1.2.3")`, "1:39: 1.2.3 is not an address or a network")
	f(`do networkCheck(networks="fe80::1%eth0")`, "1:27: fe80::1%eth0 is not an address or a network")
	f(`do counterCheck(type=14, limit=1, period="11m")`, `1:42: period must be a period of counters: "10m" to "23h50m" by ten minutes, or "1d" to "14d"`)
	f(`do counterCheck(type=65536, limit=1)`, "1:22: type must be a whole number, 0 to 65535")
	f(`do counterMark(type=1, as="evil")`, `1:27: as must be "good" or "bad" of a judgement, "spam" or "notSpam" of people`)
	f("skip to 5", "")
	f("skip to 5 do ruleTrue() 5: stop as X", "")
}

func TestParts(t *testing.T) {
	o := DefaultOptions()
	o.Parts = PartStorages | PartModels | PartLogs
	if _, err := Compile("do counterCheck(type=1, limit=1)", o); err == nil || !strings.Contains(err.Error(), "there are no counters") {
		t.Errorf("a rule without its part: %v", err)
	}
	o.Parts, o.Lists, o.Formulas = PartsAll, []List{{Name: "block"}, {Name: "tor"}}, newWorld()
	for src, want := range map[string]string{
		`do listCheck(list="torr")`:                               "line 1, column 19: there is no list torr; did you mean tor?",
		`do listCheck(list="tor")`:                                "",
		`do formulaCheck(formula="any")`:                          "line 1, column 25: there is no formula any",
		`do formulaCheck(formula="f")`:                            "",
		`do ruleTrue() mark missing do formulaCheck(formula="f")`: "line 1, column 52: formula f: the factors do not fit",
	} {
		if _, err := Compile(src, o); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
	o.Parts = PartStorages | PartModels | PartLogs
	p, err := Compile("do modelClassify() do messageLogPut()", o)
	if err != nil || p.Needs() != PartModels|PartLogs {
		t.Errorf("needs %v, %v", p.Needs(), err)
	}
}

func TestLimits(t *testing.T) {
	f := func(src, want string) {
		t.Helper()
		if _, err := Compile(src, DefaultOptions()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", src, err, want)
		}
	}
	f(strings.Repeat(" ", maxSource+1), "262145 bytes")
	f(strings.Repeat("stop as A\n", maxStatements+1), "line 4097, column 1: more than 4096 statements")
	var tags strings.Builder
	for i := range maxTags {
		fmt.Fprintf(&tags, "t%d, ", i)
	}
	f("do ruleTrue() mark "+tags.String()+"more", "more than 1024 different tags")
	f(strings.Repeat(`do regexpCheck(regexp="[^a]{900}") `, 30), "regexp: the regexps are too big together")
}

func TestWarnings(t *testing.T) {
	p, err := Compile("5: do ruleTrue()\nif a skip to 5", DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if w := p.Warnings(); len(w) != 2 || w[0].Error() != "line 2, column 1: there is no label 5 later in the rules" {
		t.Errorf("warnings %v", w)
	}
}

// FuzzParse checks that nothing panics, that errors have a place, and that the canonical form of what is right is right
// and the same again.
func FuzzParse(f *testing.F) {
	f.Add("do lengthCheck(minLength=1, maxLength=1000) mark invalid\nif invalid skip to 1000\n1000: do messageLogPut()\nstop as OK")
	f.Add(`if not, a do f(a="\"\\", b=-1.5) score 2 mark x # c`)
	f.Add("if not not do do f()")
	f.Add("do regexpCheck(regexp=\"^(?iu)[\\W\\d]+\\b\\u0451$\")")
	f.Add("do regexpCheck(regexp=\"(?P<a>[^]x]{,5})\\Z(?#c)\")")
	f.Fuzz(func(t *testing.T, src string) {
		s, err := Parse(src)
		if err != nil {
			var e *SyntaxError
			if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		text := s.String()
		if len(text) > maxSource {
			return
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("canonical form %q of %q: %v", text, src, err)
		}
		if again.String() != text {
			t.Fatalf("canonical form changes: %q, %q", text, again.String())
		}
		p, err := s.compile(DefaultOptions())
		if err != nil {
			return
		}
		var r Run
		_ = p.Run(context.Background(), newWorld().env(), &r)
	})
}
