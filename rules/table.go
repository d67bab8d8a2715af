package rules

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/request"
)

type paramKind uint8

const (
	kindText paramKind = iota
	kindWhole
	kindNumber
	kindSeconds
	kindValue
	kindRegexp
	kindPeriod
	kindNetworks
	kindType
	kindList
	kindFormula
	kindMarker
	kindAttribute
	kindAttributes
	kindStorage
	kindModel
	kindLog
)

func (k paramKind) String() string {
	return [...]string{
		"text", "whole number", "number", "seconds", "text or number", "regexp", "period", "networks",
		"0 to 65535", "text", "text", "text", "text", "text", "text", "text", "text",
	}[k]
}

// param declares a parameter. value is its default in the notation of rules, None, or empty if it is required.
type param struct {
	name, value string
	kind        paramKind
	doc         string
}

// rule declares a rule. build is called for each statement, with checked arguments.
type rule struct {
	name   string
	params []param
	needs  Part
	slow   bool
	counts bool
	doc    string
	build  func(a *arguments) (check, error)
	lint   func(a *arguments) string // a probable mistake; empty: none
}

const required = ""

func textParam() param {
	return param{"attribute", `"text"`, kindAttribute, "the attribute with the text"}
}

func storageParam() param {
	return param{"storage", `"storage"`, kindStorage, "the storage with the counters"}
}

func windowParam(seconds string) param {
	return param{"timeout", seconds, kindSeconds, "the length of the window, which begins with the first use of a counter"}
}

func table() []*rule {
	return slices.Concat(messageRules(), modelRules(), requestRules(), generalRules())
}

func ruleNames() []string {
	var names []string
	for _, r := range table() {
		names = append(names, r.name)
	}
	return names
}

func overText(a *arguments, f func(ctx context.Context, e *Env, r *Run, text string) (bool, error)) check {
	attribute := a.text("attribute")
	return func(ctx context.Context, e *Env, r *Run) (bool, error) {
		text, err := e.textOf(attribute)
		if err != nil {
			return false, err
		}
		return f(ctx, e, r, text)
	}
}

func overValue(a *arguments, f func(ctx context.Context, e *Env, r *Run, v Value) (bool, error)) check {
	attribute := a.text("attribute")
	return func(ctx context.Context, e *Env, r *Run) (bool, error) {
		v, err := e.valueOf(attribute)
		if err != nil {
			return false, err
		}
		return f(ctx, e, r, v)
	}
}

func constant(result bool) func(a *arguments) (check, error) {
	return func(*arguments) (check, error) {
		return func(context.Context, *Env, *Run) (bool, error) { return result, nil }, nil
	}
}

func parsePeriod(s string) (time.Duration, error) {
	wrong := errors.New(`a period of counters: "10m" to "23h50m" by ten minutes, or "1d" to "14d"`)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 14 {
			return 0, wrong
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 10*time.Minute || d > 24*time.Hour || d%(10*time.Minute) != 0 {
		return 0, wrong
	}
	return d, nil
}

const markers = `"good" or "bad" of a judgement, "spam" or "notSpam" of people`

func parseMarker(s string) (Marker, bool) {
	for i, name := range [...]string{"good", "bad", "spam", "notSpam"} {
		if s == name {
			return Marker(i), true
		}
	}
	return 0, false
}

func networkFields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t' || r == '\n' ||
			r == '\r'
	})
}

func badNetwork(s string) (string, int) {
	for _, f := range networkFields(s) {
		if _, err := request.ParseNetwork(f); err != nil {
			return f, strings.Index(s, f)
		}
	}
	return "", 0
}
