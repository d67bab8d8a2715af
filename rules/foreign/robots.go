package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// line is a rule of robots.txt.
type line struct {
	allow   bool
	pattern string
}

// agent is what robots.txt says to one robot.
type agent struct {
	name  string // in lower case; * is all others
	lines []line
	delay int // seconds; 0: none
}

// Bounds of one robots.txt.
const (
	maxRobots  = 512 << 10 // bytes
	maxAgents  = 500
	maxLines   = 5000
	maxPattern = 500
)

// selfNamed finds robots that say what they are, which is all that can be known of "all others".
const selfNamed = `(?i:bot(?:[^a-z]|$)|crawler|spider|slurp|archiver)`

// Robots turns robots.txt into rules that hold robots to it.
func Robots(src []byte) (*Result, error) {
	if len(src) > maxRobots || !utf8.Valid(src) {
		return nil, errors.New("it is longer than 512 KiB, or no text")
	}
	var w writer
	agents := w.readRobots(string(src))
	said := false
	w.line("# From a robots.txt: robots are held to what it asks of them.")
	w.without("ua")
	if strings.Contains(string(src), "?") {
		w.without("query") // here, because a group may be skipped
	}
	w.line("do regexpCheck(regexp=\"/robots\\.txt$\", attribute=\"path\") mark asks")
	w.line("if not asks stop as OK")
	for i, g := range groups(agents) {
		if len(g.lines) == 0 && g.delay == 0 && g.name == "*" {
			continue
		}
		said = said || len(g.lines) > 0 || g.delay > 0
		if err := w.group(g, i+1); err != nil {
			return nil, err
		}
	}
	if !said {
		return nil, errors.New("it forbids nothing: there is nothing to write rules of")
	}
	w.line("stop as OK")
	return &Result{w.String(), w.unsaid}, nil
}

// readRobots reads what is said to whom; lines of one robot in several groups belong together.
func (w *writer) readRobots(src string) []*agent {
	var all, current []*agent
	named, lines := false, 0
	find := func(name string) *agent {
		if i := slices.IndexFunc(all, func(a *agent) bool { return a.name == name }); i >= 0 {
			return all[i]
		}
		all = append(all, &agent{name: name})
		return all[len(all)-1]
	}
	for n, text := range strings.Split(strings.TrimPrefix(src, "\ufeff"), "\n") {
		text, _, _ = strings.Cut(text, "#")
		key, value, ok := strings.Cut(text, ":")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		lines++
		switch {
		case strings.TrimSpace(text) == "":
		case !ok || lines > maxLines || len(all) > maxAgents:
			w.skip("line %d: %.60q", n+1, strings.TrimSpace(text))
		case key == "user-agent":
			if !named {
				current = nil
			}
			if named = true; value != "" {
				current = append(current, find(strings.ToLower(value)))
			}
		case key == "allow" || key == "disallow" || key == "crawl-delay":
			named = false
			for _, a := range current {
				w.readLine(a, n+1, key, value)
			}
		default:
			w.skip("line %d: %s is nothing that rules can hold anybody to", n+1, comment(key))
		}
	}
	return all
}

func (w *writer) readLine(a *agent, n int, key, value string) {
	switch {
	case key == "crawl-delay":
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds <= 86400 {
			a.delay = max(1, int(seconds+0.5))
		} else {
			w.skip("line %d: a crawl-delay of %.20q", n, value)
		}
	case value == "": // forbids nothing
	case len(value) > maxPattern || value[0] != '/' && value[0] != '*':
		w.skip("line %d: %.60q is no path", n, value)
	default:
		a.lines = append(a.lines, line{key == "allow", value})
	}
}

// groups puts robots together to whom the same is said. One whose name is in another's stays alone, behind it.
func groups(agents []*agent) []*agent {
	byKey := map[string]*agent{}
	var out []*agent
	for _, a := range agents {
		slices.SortStableFunc(a.lines, func(x, y line) int { // the longest decides, and allow among equals
			return cmp.Or(cmp.Compare(len(y.pattern), len(x.pattern)), cmp.Compare(order(x.allow), order(y.allow)))
		})
		key := fmt.Sprint(a.lines, a.delay)
		if a.name == "*" || slices.ContainsFunc(agents, func(b *agent) bool {
			return b != a && (strings.Contains(b.name, a.name) || strings.Contains(a.name, b.name))
		}) {
			key = a.name
		}
		if g := byKey[key]; g != nil {
			g.name += "\n" + a.name
			continue
		}
		byKey[key] = a
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(x, y *agent) int {
		return cmp.Or(cmp.Compare(order(x.name != "*"), order(y.name != "*")), cmp.Compare(len(y.name), len(x.name)))
	})
	return out
}

func order(first bool) int {
	if first {
		return 0
	}
	return 1
}

// group writes what holds for some robots; label is where those go on that are not meant.
func (w *writer) group(g *agent, label int) error {
	names := strings.Split(g.name, "\n")
	w.line("\n# %s", comment(strings.Join(names, ", ")))
	expr := selfNamed
	if g.name == "*" {
		w.skip("what is asked of all robots is asked of those that call themselves one (bot, crawler, spider): robots.txt does not say how to know others")
	} else {
		for i := range names {
			names[i] = regexp.QuoteMeta(names[i])
		}
		expr = "(?i:" + strings.Join(names, "|") + ")"
	}
	who, err := matches("ua", expr)
	if err != nil {
		return err
	}
	other := w.tag()
	w.fails(who, other)
	w.line("if %s skip to %d", other, label)
	for len(g.lines) > 0 {
		n, rest, err := some(g.lines)
		if err != nil {
			return err
		}
		tag, decision := w.tag(), "BLOCK"
		if g.lines[0].allow {
			decision = "OK"
		}
		w.fails(n, tag)
		w.line("if not %s stop as %s", tag, decision)
		g.lines = rest
	}
	if g.delay > 0 {
		slow := w.tag()
		w.line("do bucketCheck(rate=1, per=%d, burst=5, attribute=\"ip\") mark %s", g.delay, slow)
		w.line("if %s stop as THROTTLE", slow)
	}
	w.line("stop as OK")
	w.line("%d: do ruleTrue()", label)
	return nil
}

// some makes one test of the first lines that say the same, and returns the others.
func some(lines []line) (*node, []line, error) {
	const together = 1000 // characters of one regexp
	if path, query, ok := strings.Cut(lines[0].pattern, "?"); ok {
		n, err := withQuery(path, query)
		return n, lines[1:], err
	}
	var exprs []string
	size, i := 0, 0
	for ; i < len(lines) && lines[i].allow == lines[0].allow && !strings.Contains(lines[i].pattern, "?") && size < together; i++ {
		e := pathExpr(lines[i].pattern)
		exprs = append(exprs, e)
		size += len(e)
	}
	n, err := matches("path", "^(?:"+strings.Join(exprs, "|")+")")
	return n, lines[i:], err
}

// withQuery is a pattern that reaches into the query.
func withQuery(path, query string) (*node, error) {
	n, err := matches("path", "^"+pathExpr(path)+"$")
	if err != nil {
		return nil, err
	}
	q, err := matches("query", "^"+pathExpr(query))
	return &node{kind: allOf, of: []*node{n, there("query"), q}}, err
}

// pathExpr is a regexp for a pattern: * is anything, and a $ at the end is the end.
func pathExpr(pattern string) string {
	pattern, end := strings.CutSuffix(pattern, "$")
	parts := strings.Split(pattern, "*")
	for i := range parts {
		if plain, err := url.PathUnescape(parts[i]); err == nil {
			parts[i] = plain
		}
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	expr := strings.Join(parts, ".*")
	if end {
		expr += "$"
	}
	return expr
}
