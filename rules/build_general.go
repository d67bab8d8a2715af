package rules

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for timeCheck, where an image has no zones

	"antirobot/request"
)

func (a *arguments) choice(name string, words ...string) (int, error) {
	i := slices.Index(words, a.text(name))
	if i >= 0 {
		return i, nil
	}
	return 0, &SyntaxError{Pos: a.literals[name].Pos, Text: name + " must be one of " + strings.Join(words, ", ")}
}

func (a *arguments) wrong(name, format string, args ...any) error {
	pos := a.at
	if l, ok := a.literals[name]; ok {
		pos = l.Pos
	}
	return &SyntaxError{Pos: pos, Text: name + ": " + fmt.Sprintf(format, args...)}
}

// overKey builds a check over one attribute, or several joined by tabs. Each host and path of links is checked
// separately; without a link the check is true.
func overKey(a *arguments, f func(ctx context.Context, e *Env, r *Run, v Value) (bool, error)) check {
	names := attributeNames(a.text("attribute"))
	if len(names) == 1 {
		return overEach(names[0], overValue(a, f), f)
	}
	return func(ctx context.Context, e *Env, r *Run) (bool, error) {
		r.key = r.key[:0]
		for i, name := range names {
			v, err := e.valueOf(name)
			if err != nil {
				if e.withoutLinks(name) {
					return true, nil
				}
				return false, err
			}
			if i > 0 {
				r.key = append(r.key, '\t')
			}
			r.key = appendPlain(r.key, v)
		}
		return f(ctx, e, r, Value{Kind: Text, Text: request.Borrow(r.key)})
	}
}

func overEach(name string, otherwise check, f func(ctx context.Context, e *Env, r *Run, v Value) (bool, error)) check {
	text, part, ok := severalPerText(name)
	if !ok {
		return otherwise
	}
	return func(ctx context.Context, e *Env, r *Run) (bool, error) {
		if _, declared := e.Attributes.Attribute(name); declared {
			return otherwise(ctx, e, r)
		}
		return e.eachLink(text, part, func(v Value) (bool, error) { return f(ctx, e, r, v) })
	}
}

func appendPlain(dst []byte, v Value) []byte {
	switch v.Kind {
	case Int, UniqueInt:
		return strconv.AppendInt(dst, v.Int, 10)
	case IP:
		return v.IP.Unmap().AppendTo(dst)
	}
	from := len(dst)
	dst = append(dst, v.Text...)
	for i := from; i < len(dst); i++ {
		if dst[i] == '\t' {
			dst[i] = ' '
		}
	}
	return dst
}

func buildCompareCheck(a *arguments) (check, error) {
	is, err := a.choice("is", "equal", "same", "contains", "starts", "ends", "host", "less", "more")
	if err != nil {
		return nil, err
	}
	compare := [...]func(v, w Value) bool{
		func(v, w Value) bool { v.IP, w.IP = v.IP.Unmap(), w.IP.Unmap(); return v == w },
		func(v, w Value) bool { return strings.EqualFold(v.Text, w.Text) },
		func(v, w Value) bool { return strings.Contains(v.Text, w.Text) },
		func(v, w Value) bool { return strings.HasPrefix(v.Text, w.Text) },
		func(v, w Value) bool { return strings.HasSuffix(v.Text, w.Text) },
		func(v, w Value) bool { return sameHost(v.Text, w.Text) },
		func(v, w Value) bool { return v.Int < w.Int },
		func(v, w Value) bool { return v.Int > w.Int },
	}[is]
	names := [2]string{a.text("attribute"), a.text("other")}
	return func(_ context.Context, e *Env, _ *Run) (bool, error) {
		var v [2]Value
		for i, name := range names {
			if v[i], err = e.valueOf(name); err != nil {
				return false, err
			}
			number := v[i].Kind == Int || v[i].Kind == UniqueInt
			if is > 0 && is < 6 && v[i].Kind != Text || is >= 6 && !number {
				return false, Faultf(CodeType, "the attribute %s is of type %s, which can't be compared so", name,
					v[i].Kind)
			}
		}
		return compare(v[0], v[1]), nil
	}, nil
}

func sameHost(address, other string) bool {
	host := func(s string) string {
		if _, rest, ok := strings.Cut(s, "://"); ok {
			s = rest
		}
		if i := strings.IndexAny(s, "/?#"); i >= 0 {
			s = s[:i]
		}
		return string(request.HostName([]byte(s)))
	}
	h := host(address)
	return h != "" && h == host(other)
}

func lintRangeCheck(a *arguments) string {
	switch {
	case !a.given("min") && !a.given("max"):
		return "without min and max every number is within the limits"
	case a.given("min") && a.given("max") && a.number("min") > a.number("max"):
		return "min is above max: no number is between them"
	}
	return ""
}

func buildRangeCheck(a *arguments) (check, error) {
	least, most := math.Inf(-1), math.Inf(1)
	if a.given("min") {
		least = a.number("min")
	}
	if a.given("max") {
		most = a.number("max")
	}
	attribute := a.text("attribute")
	return func(_ context.Context, e *Env, _ *Run) (bool, error) {
		v, err := e.valueOf(attribute)
		if err != nil {
			return false, err
		}
		switch v.Kind {
		case Int, UniqueInt:
			return float64(v.Int) >= least && float64(v.Int) <= most, nil
		case Text:
			n, err := strconv.ParseFloat(strings.TrimSpace(v.Text), 64)
			return err == nil && n >= least && n <= most, nil
		}
		return false, Faultf(CodeType, "the attribute %s is of type %s, not a number", attribute, v.Kind)
	}, nil
}

func clockTime(s string) (int, bool) {
	h, m, ok := strings.Cut(s, ":")
	if !ok || len(h) != 2 || len(m) != 2 || !digits(h) || !digits(m) {
		return 0, false
	}
	hours, _ := strconv.Atoi(h)
	minutes, _ := strconv.Atoi(m)
	all := hours*60 + minutes
	return all, minutes < 60 && all <= 24*60
}

// weekdays reads "mon-fri, sun"; days begin with Sunday.
func weekdays(s string) (days [7]bool, ok bool) {
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	for _, part := range attributeNames(strings.ToLower(s)) {
		first, last, run := strings.Cut(part, "-")
		if !run {
			last = first
		}
		from, to := slices.Index(names, strings.TrimSpace(first)), slices.Index(names, strings.TrimSpace(last))
		if from < 0 || to < 0 {
			return days, false
		}
		for ; from != to; from = (from + 1) % 7 {
			days[from] = true
		}
		days[to] = true
	}
	return days, true
}

func lintTimeCheck(a *arguments) string {
	if a.text("from") == a.text("to") {
		return "from and to are the same: the time is empty"
	}
	return ""
}

func buildTimeCheck(a *arguments) (check, error) {
	from, ok := clockTime(a.text("from"))
	if !ok {
		return nil, a.wrong("from", "a time of day is written as 09:30")
	}
	to, ok := clockTime(a.text("to"))
	if !ok {
		return nil, a.wrong("to", "a time of day is written as 18:00")
	}
	days, ok := weekdays(a.text("days"))
	if !ok {
		return nil, a.wrong("days", `days are written as "mon-fri, sun"`)
	}
	zone, err := time.LoadLocation(a.text("zone"))
	if err != nil {
		return nil, a.wrong("zone", "there is no time zone %s", short(a.text("zone")))
	}
	now := a.compiler.options.Now
	return func(context.Context, *Env, *Run) (bool, error) {
		at := now().In(zone)
		minute, day := at.Hour()*60+at.Minute(), int(at.Weekday())
		if from <= to {
			return days[day] && from <= minute && minute < to, nil
		}
		return days[day] && minute >= from || days[(day+6)%7] && minute < to, nil
	}, nil
}

func buildSampleCheck(a *arguments) (check, error) {
	share, salt := a.number("share"), a.text("salt")
	if !a.given("attribute") {
		//nolint:gosec // a sample
		return func(context.Context, *Env, *Run) (bool, error) { return rand.Float64() >= share, nil }, nil
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(salt))
	begin := seed.Sum64()
	return overKey(a, func(_ context.Context, _ *Env, r *Run, v Value) (bool, error) {
		r.buf = appendValue(r.buf[:0], v)
		h := begin
		for _, c := range r.buf {
			h = (h ^ uint64(c)) * FNVPrime
		}
		return float64(Mix(h)>>11)/(1<<53) >= share, nil
	}), nil
}
