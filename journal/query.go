package journal

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/verdict"
)

// Query selects entries. The zero value selects all. Make it with ParseQuery.
type Query struct {
	terms []term
	kinds bool
	Since time.Time
	Until time.Time
}

// term is one condition; it returns whether a row fulfils it.
type term struct {
	not   bool
	holds func(r *row) bool
}

const (
	maxQuery = 1000
	maxTerms = 32
)

// Keys are the keys of a query.
const Keys = "kind verdict cause mode service method path subject ip agent ja4 status reason by trace since until"

// ParseQuery reads a query such as
//
//	verdict:robot path:/api ip:203.0.113.0/24 -agent:curl since:2h
//
// All conditions must hold, those with a minus must not. Values are separated by commas. path is a prefix, ip may be a
// network, status may be 4xx; agent and reason match parts, ignoring case. A word without a key matches path, agent,
// reason and subject; a bare address or network means ip. Values with spaces or commas are quoted; a backslash escapes
// quotes and backslashes. Times are durations before now, or RFC 3339.
func ParseQuery(text string, now time.Time) (Query, error) {
	var q Query
	if len(text) > maxQuery {
		return q, fmt.Errorf("a query has at most %d bytes", maxQuery)
	}
	words, err := wordsOf(text)
	if err != nil {
		return q, err
	}
	if len(words) > maxTerms {
		return q, fmt.Errorf("a query has at most %d conditions", maxTerms)
	}
	for _, w := range words {
		not := false
		if len(w) > 1 && w[0] == '-' {
			not, w = true, w[1:]
		}
		key, value := split(w)
		if key == "since" || key == "until" {
			at, err := parseTime(value, now)
			if err != nil || not {
				return q, fmt.Errorf("%s: %.60q is neither a time before now such as 2h or 1d, nor one such as "+
					"2026-01-02T15:04:05Z", key, value)
			}
			if key == "since" {
				q.Since = at
			} else {
				q.Until = at
			}
			continue
		}
		holds, err := condition(key, value)
		if err != nil {
			return q, err
		}
		q.kinds = q.kinds || key == "kind" && !not
		q.terms = append(q.terms, term{not, holds})
	}
	return q, nil
}

// quotedComma stands for a quoted comma, which belongs to its value.
const quotedComma = 0

func withCommas(value string) string {
	return strings.ReplaceAll(value, string(rune(quotedComma)), ",")
}

func wordsOf(text string) (words []string, err error) {
	var word strings.Builder
	quoted, some := false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted, some = !quoted, true
		case c == ',' && quoted:
			word.WriteByte(quotedComma)
		case c == '\\' && quoted && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			word.WriteByte(text[i])
		case (c == ' ' || c == '\t') && !quoted:
			if some {
				words = append(words, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteByte(c)
			some = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if some {
		words = append(words, word.String())
	}
	return words, nil
}

// maxTerm bounds the bytes of a value that Term puts into a query.
const maxTerm = 400

// Term returns the condition key:value in the syntax of ParseQuery. An overlong or invalid text is cut to its first
// valid part, enough for keys that match parts.
func Term(key, value string) string {
	for part := range strings.SplitSeq(strings.ToValidUTF8(value, "\uFFFD"), "\uFFFD") {
		if value = part; len(part) > 3 {
			break
		}
	}
	value = strings.ToValidUTF8(value[:min(len(value), maxTerm)], "")
	if value != "" && !strings.ContainsAny(value, " \t,\"") {
		return key + ":" + value
	}
	return key + `:"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// split returns the key and the value of a condition; a bare address has key ip.
func split(w string) (key, value string) {
	if _, ok := network(w); ok {
		return "ip", w
	}
	key, value, ok := strings.Cut(w, ":")
	switch {
	case !ok || strings.HasPrefix(w, "/"):
		return "", w
	case slices.Contains([]string{"spravka", "i", "L", "auth", "fuid"}, key):
		return "subject", w
	case key == "address":
		key = "ip"
	}
	return key, value
}

func network(s string) (n netip.Prefix, ok bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	n, err := netip.ParsePrefix(s)
	return n.Masked(), err == nil
}

func parseTime(s string, now time.Time) (time.Time, error) {
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 4000 {
			return now, fmt.Errorf("%.60q is no number of days", days)
		}
		if now = now.Add(-time.Duration(n) * day); rest == "" {
			return now, nil
		}
		s = rest
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Parse(time.RFC3339, s)
}

var columnOf = map[string]int{
	"service": colService, "method": colMethod, "path": colPath, "subject": colSubject, "agent": colAgent,
	"ja4": colJA4, "reason": colReason, "by": colBy,
}

func condition(key, value string) (func(r *row) bool, error) {
	if key == "" {
		want := bytes.ToLower([]byte(withCommas(value)))
		return func(r *row) bool {
			return contains(r.texts[colPath], want) || contains(r.texts[colAgent], want) ||
				contains(r.texts[colReason], want) || contains(r.texts[colSubject], want)
		}, nil
	}
	var any []func(r *row) bool
	for v := range strings.SplitSeq(value, ",") {
		one, err := single(key, withCommas(v))
		if err != nil {
			return nil, err
		}
		any = append(any, one)
	}
	if len(any) == 1 {
		return any[0], nil
	}
	return func(r *row) bool {
		return slices.ContainsFunc(any, func(f func(r *row) bool) bool { return f(r) })
	}, nil
}

func single(key, value string) (func(r *row) bool, error) {
	switch key {
	case "kind":
		k, err := number(key, value, kindNames[:])
		return func(r *row) bool { return r.kind == Kind(k) }, err //nolint:gosec // a place in a short list
	case "verdict":
		v, err := number(key, value, verdictNames)
		want := verdict.Verdict(v) //nolint:gosec // the same
		return func(r *row) bool { return r.kind < KindBan && r.verdict == want }, err
	case "cause":
		c, err := number(key, value, causeNames())
		want := verdict.Cause(c) //nolint:gosec // the same
		return func(r *row) bool { return r.kind < KindBan && r.cause == want }, err
	case "mode":
		m, err := number(key, value, modeNames)
		want := verdict.Mode(m) //nolint:gosec // the same
		return func(r *row) bool { return r.kind < KindBan && r.mode == want }, err
	case "status":
		return statusIs(value)
	case "trace":
		id, ok := verdict.ParseTrace(value)
		if !ok {
			return nil, fmt.Errorf("trace: %.60q is no ID of a trace: it has 32 hexadecimal digits", value)
		}
		return func(r *row) bool { return bytes.Equal(r.texts[colTrace], id[:]) }, nil
	case "ip":
		return addressIn(value)
	}
	column, ok := columnOf[key]
	if !ok {
		return nil, fmt.Errorf("%.60q is no key of a query; there are: %s", key, Keys)
	}
	want := []byte(value)
	switch column {
	case colPath:
		return func(r *row) bool { return bytes.HasPrefix(r.texts[colPath], want) }, nil
	case colAgent, colReason:
		want = bytes.ToLower(want)
		return func(r *row) bool { return contains(r.texts[column], want) }, nil
	case colJA4:
		return func(r *row) bool { return bytes.HasPrefix(r.texts[colJA4], want) }, nil
	}
	return func(r *row) bool { return bytes.EqualFold(r.texts[column], want) }, nil
}

var (
	verdictNames = []string{"human", "unsure", "robot", "blocked"}
	modeNames    = []string{"enforce", "observe", "off"}
)

func causeNames() []string {
	names := make([]string, verdict.Causes)
	for i := range names {
		names[i] = verdict.Cause(i).String() //nolint:gosec // there are few
	}
	return names
}

func number(key, value string, names []string) (int, error) {
	if i := slices.Index(names, value); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s: %.60q is none of %s", key, value, strings.Join(names, ", "))
}

func statusIs(value string) (func(r *row) bool, error) {
	if class, ok := strings.CutSuffix(value, "xx"); ok && len(class) == 1 && class[0] >= '1' && class[0] <= '5' {
		c := uint16(class[0] - '0')
		return func(r *row) bool { return r.status/100 == c }, nil
	}
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("status: %.60q is neither a number nor a class such as 4xx", value)
	}
	return func(r *row) bool { return uint64(r.status) == n }, nil
}

func addressIn(value string) (func(r *row) bool, error) {
	n, ok := network(value)
	if !ok {
		return nil, fmt.Errorf("ip: %.60q is neither an address nor a network such as 203.0.113.0/24", value)
	}
	if n.IsSingleIP() {
		want := []byte(n.Addr().String())
		return func(r *row) bool { return bytes.Equal(r.texts[colAddress], want) }, nil
	}
	return func(r *row) bool {
		text := string(r.texts[colAddress]) // the compiler does not copy a short one
		if a, err := netip.ParseAddr(text); err == nil {
			return n.Contains(a)
		}
		p, err := netip.ParsePrefix(text) // it was shortened
		return err == nil && n.Bits() <= p.Bits() && n.Contains(p.Addr())
	}, nil
}

// contains reports whether text contains a lower-case part, ignoring case.
func contains(text, part []byte) bool {
	if len(part) == 0 {
		return true
	}
	for i := 0; i+len(part) <= len(text); i++ {
		k := 0
		for k < len(part) && lower(text[i+k]) == part[k] {
			k++
		}
		if k == len(part) {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func (q *Query) matches(r *row) bool {
	for i := range q.terms {
		if q.terms[i].holds(r) == q.terms[i].not {
			return false
		}
	}
	return true
}
