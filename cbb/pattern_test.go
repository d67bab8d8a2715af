package cbb

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"antirobot/request"
)

// hit returns which flags the patterns give a request.
func hit(t testing.TB, l *Lists, method, path string, headers ...string) string {
	t.Helper()
	v, id := newRequest("192.0.2.1", path, headers...)
	v.Method = []byte(method)
	var m Match
	l.Lookup(&m, v, id, "")
	var out []string
	for i := range slots {
		if e := *m.at(i); e != nil {
			out = append(out, e.Text)
		}
	}
	return strings.Join(out, " ")
}

func withPatterns(t testing.TB, p ...PatternConfig) *Lists {
	return open(t, config(func(c *Config) { c.Patterns = p }), nil)
}

func TestPatternConditions(t *testing.T) {
	f := func(p PatternConfig, want bool, method, path string, headers ...string) {
		t.Helper()
		p.Name, p.Flag = "p", "ban"
		if got := hit(t, withPatterns(t, p), method, path, headers...) == "p"; got != want {
			t.Errorf("%+v on %s %s %q: %v", p, method, path, headers, got)
		}
	}
	f(PatternConfig{Methods: []string{"POST", "PUT"}}, true, "PUT", "/")
	f(PatternConfig{Methods: []string{"POST", "PUT"}}, false, "GET", "/")
	f(PatternConfig{Methods: []string{"POST"}}, false, "post", "/")

	f(PatternConfig{Path: "/a"}, true, "GET", "/a")
	f(PatternConfig{Path: "/a"}, false, "GET", "/a/")
	f(PatternConfig{PathPrefix: "/a/"}, true, "GET", "/a/b")
	f(PatternConfig{PathPrefix: "/a/"}, false, "GET", "/ab")
	f(PatternConfig{PathGlob: "/*/wp-login.php"}, true, "GET", "/x/wp-login.php")
	f(PatternConfig{PathGlob: "/*/wp-login.php"}, false, "GET", "/x/y/wp-login.php")
	f(PatternConfig{PathGlob: "/**/wp-login.php"}, true, "GET", "/x/y/wp-login.php")
	f(PatternConfig{PathGlob: "/**/wp-login.php"}, true, "GET", "/wp-login.php")
	f(PatternConfig{PathGlob: "/**/*.php"}, true, "GET", "/a.php")
	f(PatternConfig{PathGlob: "/**/*.php"}, true, "GET", "/x/y/a.php")
	f(PatternConfig{PathGlob: "/a/**/b/**/c"}, true, "GET", "/a/b/c")
	f(PatternConfig{PathGlob: "/a/**/b/**/c"}, true, "GET", "/a/x/b/y/z/c")
	f(PatternConfig{PathGlob: "/a/**/b/**/c"}, false, "GET", "/a/xb/c")
	f(PatternConfig{PathGlob: "/a/**/**/c"}, true, "GET", "/a/c")
	f(PatternConfig{PathGlob: "/**/b"}, false, "GET", "/ab")
	f(PatternConfig{PathGlob: "/a?c"}, true, "GET", "/abc")
	f(PatternConfig{PathGlob: "/a?c"}, false, "GET", "/a/c")
	f(PatternConfig{PathGlob: "/a.c"}, false, "GET", "/abc")
	f(PatternConfig{PathGlob: "**.php"}, true, "GET", "/x/y.php")
	f(PatternConfig{PathRegex: `\.(php|asp)$`}, true, "GET", "/x.asp")
	f(PatternConfig{PathRegex: `\.(php|asp)$`}, false, "GET", "/x.aspx")
	f(PatternConfig{PathRegex: `(?i)/ADMIN`}, true, "GET", "/admin")

	f(PatternConfig{UserAgent: "python-requests"}, true, "GET", "/", "User-Agent", "Python-Requests/2.31")
	f(PatternConfig{UserAgent: "python-requests"}, false, "GET", "/", "User-Agent", "curl/8")
	f(PatternConfig{UserAgent: "python-requests"}, false, "GET", "/")
	f(PatternConfig{UserAgentRegex: `^curl/[78]\.`}, true, "GET", "/", "user-agent", "curl/8.1")
	f(PatternConfig{UserAgentRegex: `^curl/[78]\.`}, false, "GET", "/", "user-agent", "x curl/8.1")

	h := func(c HeaderConfig) PatternConfig { return PatternConfig{Headers: []HeaderConfig{c}} }
	f(h(HeaderConfig{Name: "X-A"}), true, "GET", "/", "x-a", "")
	f(h(HeaderConfig{Name: "X-A"}), false, "GET", "/", "x-b", "")
	f(h(HeaderConfig{Name: "X-A", Absent: true}), true, "GET", "/", "x-b", "")
	f(h(HeaderConfig{Name: "X-A", Absent: true}), false, "GET", "/", "x-a", "")
	f(h(HeaderConfig{Name: "X-A", Value: "One"}), true, "GET", "/", "x-a", "One")
	f(h(HeaderConfig{Name: "X-A", Value: "One"}), false, "GET", "/", "x-a", "one")
	f(h(HeaderConfig{Name: "X-A", Contains: "nE"}), true, "GET", "/", "x-a", "xxOne")
	f(h(HeaderConfig{Name: "X-A", Regex: "^O.e$"}), true, "GET", "/", "x-a", "One")

	all := PatternConfig{
		Methods: []string{"POST"}, PathPrefix: "/api", UserAgent: "bot",
		Headers: []HeaderConfig{{Name: "Referer", Absent: true}},
	}
	f(all, true, "POST", "/api/x", "User-Agent", "a Bot")
	f(all, false, "GET", "/api/x", "User-Agent", "a Bot")
	f(all, false, "POST", "/x", "User-Agent", "a Bot")
	f(all, false, "POST", "/api/x", "User-Agent", "a human")
	f(all, false, "POST", "/api/x", "User-Agent", "a Bot", "Referer", "/")
}

// The gateway's rules and the upstream may read a path differently.
func TestPathDifferencesAreJudgedByTheStricter(t *testing.T) {
	l := withPatterns(t,
		PatternConfig{Name: "admin", Flag: "block", PathPrefix: "/admin"},
		PatternConfig{Name: "static", Flag: "white", PathPrefix: "/static/"},
		PatternConfig{Name: "css", Flag: "white", PathRegex: `\.css$`},
	)
	for _, path := range []string{
		"/admin", "//admin", "/./admin", "/x/../admin", "/x/%2e%2e/admin", "/x/%2E%2E/admin", "/x/..%2fadmin", "/%61dmin", "/%41dmin/../admin", "/%61dmin/../x", "/y/../%61dmin%2f..%2fx", "//h/admin",
		"/;x=y/admin", "/x/..;/admin", "/%2fadmin", "/%2Fadmin", "/x\\..\\admin", "/%2561dmin", "/admin%00.png", "/admin/../x",
	} {
		if got := hit(t, l, "GET", path); !strings.HasPrefix(got, "admin") {
			t.Errorf("%s escapes the block: %q", path, got)
		}
	}
	for _, path := range []string{
		"/static/../secret", "/static/%2e%2e/secret", "/static/..%2fsecret", "/static/..;/secret", "/static/x/../../secret", "//static/x",
		"/%73tatic/x", "/static\\..\\..\\secret", "/secret%00.css", "/secret;.css", "/secret;/x.css/..",
	} {
		if got := hit(t, l, "GET", path); got != "" {
			t.Errorf("%s gets in: %q", path, got)
		}
	}
	for path, want := range map[string]string{"/static/a.png": "static", "/static/caf%C3%A9.png": "static", "/static/a//b": "static", "/x/y.css": "css", "/other": ""} {
		if got := hit(t, l, "GET", path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	long := "/static/" + strings.Repeat("a", maxValue)
	if got := hit(t, l, "GET", long); got != "" {
		t.Errorf("a path of which only the beginning was read is white: %q", got)
	}
	if got := hit(t, l, "GET", "/admin"+strings.Repeat("a", maxValue)); got != "admin" {
		t.Errorf("a long path escapes: %q", got)
	}
}

// Repeating a header, also by a name that services take for it, neither evades a block nor gains admission by a white
// list.
func TestRepeatedHeaders(t *testing.T) {
	l := withPatterns(t,
		PatternConfig{Name: "bad", Flag: "block", UserAgent: "evil"},
		PatternConfig{Name: "key", Flag: "white", Headers: []HeaderConfig{{Name: "X-Monitor", Value: "secret"}}},
	)
	f := func(want string, headers ...string) {
		t.Helper()
		if got := hit(t, l, "GET", "/", headers...); got != want {
			t.Errorf("%q: %q, want %q", headers, got, want)
		}
	}
	f("bad", "User-Agent", "good", "User-Agent", "evil")
	f("bad", "User-Agent", "evil", "User-Agent", "good")
	f("bad", "User-Agent", "good", "user_agent", "evil")
	f("", "User-Agent", "good", "User-Agent", "better")
	f("key", "X-Monitor", "secret")
	f("key", "X-Monitor", "secret", "x-monitor", "secret")
	f("", "X-Monitor", "secret", "x-monitor", "guess")
	f("", "X-Monitor", "guess", "x-monitor", "secret")
	f("", "X-Monitor", "secret", "X_Monitor", "guess")
}

func TestPatternOfAService(t *testing.T) {
	l := withPatterns(t, PatternConfig{Name: "p", Flag: "block", PathPrefix: "/x", Service: "shop"})
	v, id := newRequest("192.0.2.1", "/x")
	var m Match
	if l.Lookup(&m, v, id, "blog"); m.OwnBlock != nil {
		t.Error("another service's pattern")
	}
	if l.Lookup(&m, v, id, "shop"); m.OwnBlock == nil || !m.OwnBlock.Own {
		t.Error("its own pattern is missed")
	}
}

func TestPatternsThatDoNotCompile(t *testing.T) {
	f := func(p PatternConfig, want string) {
		t.Helper()
		p.Name = "p"
		if p.Flag == "" {
			p.Flag = "ban"
		}
		c := config(func(c *Config) { c.Patterns = []PatternConfig{p} })
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "patterns[0]."+want) {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	f(PatternConfig{}, "name: ")
	f(PatternConfig{Flag: "grey", Path: "/"}, "flag: ")
	f(PatternConfig{Path: "/", PathPrefix: "/"}, "path: ")
	f(PatternConfig{Path: "a"}, "path: ")
	f(PatternConfig{PathRegex: "("}, "path_regex: ")
	f(PatternConfig{PathRegex: `(a)\1`}, "path_regex: ")
	f(PatternConfig{PathRegex: strings.Repeat("a", 2000)}, "path_regex: ")
	f(PatternConfig{PathRegex: "((a{1000}){1000})"}, "path_regex: ")
	f(PatternConfig{UserAgentRegex: "["}, "user_agent: ")
	f(PatternConfig{UserAgent: "a", UserAgentRegex: "b"}, "user_agent: ")
	f(PatternConfig{Methods: []string{"get"}}, "methods[0]: ")
	f(PatternConfig{Headers: []HeaderConfig{{}}}, "headers[0]: ")
	f(PatternConfig{Headers: []HeaderConfig{{Name: "A", Value: "x", Contains: "y"}}}, "headers[0]: ")
	f(PatternConfig{Headers: []HeaderConfig{{Name: "A", Value: "x", Absent: true}}}, "headers[0]: ")
}

// The filters before the expressions must never change an answer.
func TestFiltersNeverChangeTheAnswer(t *testing.T) {
	exprs := []string{
		`admin`, `(?i)admin`, `(?i)kiss`, `a+b`, `(ab)+c`, `(ab){2,}`, `(ab)*c`, `x|y`, `(?:foo|bar)baz`, `^/a.*b$`, `(?i)straße`, `\x{FFFD}a`, `É`, `a\.php`,
		`(?i)É`, `[aA]dmin`, `A`, `wp-(login|admin)\.php`,
	}
	parts := []string{
		"admin", "ADMIN", "\u212Ai\u017F\u017F", "kiss", "aab", "ababc", "c", "x", "foobaz", "/a", "b", "stra\u00DFe", "STRA\u1E9EE", "\xffa", "\uFFFDa", "É", "é",
		"A.PHP", "a.php", "wp-login.php", "\xc3", "/",
	}
	rapid.Check(t, func(rt *rapid.T) {
		expr := rapid.SampledFrom(exprs).Draw(rt, "expr")
		value := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 6).Draw(rt, "parts"), ""))
		f, err := compileRegexp(expr)
		if err != nil {
			rt.Fatal(err)
		}
		want := regexp.MustCompile(expr).Match(value)
		if got := f.match(value, request.AppendLower(nil, string(value))); got != want {
			rt.Fatalf("%s on %q: %v, want %v (needs %q)", expr, value, got, want, f.needs)
		}
		c := pathCond{re: f.re}
		for _, s := range f.needs {
			c.bloom.add(s)
		}
		if got := c.match(&pathForm{path: value}); got != want {
			rt.Fatalf("bloom: %s on %q: %v, want %v", expr, value, got, want)
		}
	})
}

func TestMemoryOfValuesIsBounded(t *testing.T) {
	l := withPatterns(t,
		PatternConfig{Name: "a", Flag: "ban", UserAgent: "bot"},
		PatternConfig{Name: "b", Flag: "block", UserAgentRegex: "x[0-9]+y"},
	)
	for i := range 20_000 {
		n := strings.Repeat("z", i%1500)
		if got := hit(t, l, "GET", "/", "User-Agent", "robot"+n); got != "a" {
			t.Fatalf("%d: %q", i, got)
		}
		if got := hit(t, l, "GET", "/", "User-Agent", "x5y"+n); got != "b" {
			t.Fatalf("%d: %q", i, got)
		}
	}
	// More combinations than are kept: they are forgotten and recomputed, and never wrong.
	var ps []PatternConfig
	for i := range 20 {
		ps = append(ps, PatternConfig{Name: string(rune('a' + i)), Flag: "ban", UserAgent: string(rune('a'+i)) + ";"})
	}
	l = withPatterns(t, ps...)
	for i := range 1 << 14 {
		var b strings.Builder
		want := ""
		for j := range 20 {
			if i>>j&1 > 0 {
				b.WriteString(string(rune('a'+j)) + ";")
				if want == "" {
					want = string(rune('a' + j))
				}
			}
		}
		if got := hit(t, l, "GET", "/", "User-Agent", b.String()); got != want {
			t.Fatalf("%q: %q, want %q", b.String(), got, want)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("/admin", `(?i)bot|[0-9]+`, "/*/x?", "/admin/%2e%2e/x", "Bot 7")
	f.Add("/a", `^(a+)+$`, "**", "/a;b", "aaaaaaaaaaaaaaaaaaaaaaaa!")
	f.Fuzz(func(t *testing.T, prefix, expr, glob, path, agent string) {
		rs, err := compileRules([]PatternConfig{
			{Name: "a", Flag: "block", PathPrefix: prefix, UserAgentRegex: expr},
			{Name: "b", Flag: "white", PathGlob: glob},
			{Name: "c", Flag: "ban", PathRegex: expr, Headers: []HeaderConfig{{Name: "User-Agent", Contains: agent}}},
		}, nil)
		if err != nil {
			return
		}
		v := &request.View{
			Path: []byte(path), Fields: []request.Field{{Name: []byte("user-agent"), Value: []byte(agent)}},
		}
		var m Match
		p := new(probe)
		p.begin(v, rs)
		rs.lookup(&m, p, "")
		p.end()
		if m.White != nil && len(path) < maxValue {
			re := regexp.MustCompile(globRegexp(glob))
			if n := request.NormalPath(nil, []byte(path)); !re.MatchString(path) || !re.Match(n) {
				t.Fatalf("%q is white by %q, its normal form is %q", path, glob, n)
			}
		}
		if m.OwnBlock != nil && prefix != "" && !strings.HasPrefix(path, prefix) &&
			!bytes.HasPrefix(request.NormalPath(nil, []byte(path)), []byte(prefix)) {
			t.Fatalf("%q is blocked by %q", path, prefix)
		}
	})
}
