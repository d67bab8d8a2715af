// Package words says in plain words what factors found and why a ban was made, for operators, in English and Russian.
package words

import (
	"embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Language is one in which there are words.
type Language string

// The languages; another one is taken for English.
const (
	English Language = "en"
	Russian Language = "ru"
)

// texts are read when somebody wants the first of them: most commands say nothing.
var texts = map[Language]func() map[string]phrase{
	English: sync.OnceValue(func() map[string]phrase { return read(English) }), Russian: sync.OnceValue(func() map[string]phrase { return read(Russian) }),
}

// phrase is the text of one factor, around its value.
type phrase struct {
	before, after string // with a value between them; without: before is all
	none          string // said of a value of 0 instead; empty: there is nothing else to say
	valued, share bool
}

func read(l Language) map[string]phrase {
	data, err := files.ReadFile(string(l) + ".yaml")
	var lines map[string]string
	if err == nil {
		err = yaml.Unmarshal(data, &lines)
	}
	if err != nil {
		panic("BUG: the words of " + string(l) + ": " + err.Error())
	}
	all := make(map[string]phrase, len(lines))
	for name, line := range lines {
		all[name] = parse(line)
	}
	return all
}

func parse(line string) (p phrase) {
	line, p.none, _ = strings.Cut(line, " | ")
	for _, verb := range [...]string{"%n", "%p"} {
		if before, after, ok := strings.Cut(line, verb); ok {
			return phrase{before: before, after: after, valued: true, share: verb == "%p"}
		}
	}
	p.before = line
	return p
}

func of(l Language) map[string]phrase {
	if t, ok := texts[l]; ok {
		return t()
	}
	return texts[English]()
}

// Factor says what a factor of this value found: "33 page loads in a minute". Of a name that only a later version knows it returns
// the name and the value.
func Factor(l Language, name string, value float32) string {
	p, ok := of(l)[name]
	switch {
	case !ok:
		return name + " = " + number(value)
	case p.valued && p.share:
		return p.before + fmt.Sprintf("%.3g %%", 100*value) + p.after
	case p.valued:
		n := number(value)
		return p.before + n + agree(l, p.after, n)
	case value == 0 && p.none != "":
		return p.none
	}
	return p.before
}

// number writes a value as people read it: a large one without what is behind the point, a small one with three digits.
func number(v float32) string {
	if math.Abs(float64(v)) >= 10 {
		return strconv.FormatFloat(float64(v), 'f', 0, 32)
	}
	return fmt.Sprintf("%.3g", v)
}

// name says what a factor is about, without a value.
func (p phrase) name() string {
	if !p.valued {
		return p.before
	}
	if p.before == "" {
		return strings.TrimSpace(agree(English, p.after, ""))
	}
	about, _, _ := cutLast(p.before, ": ")
	return about
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// asked are the reasons of a question; the first stands before the reason of the ban in whose place it is asked.
var asked = map[Language][3]string{
	English: {"in place of a ban: ", "its address has read too much", "its network has read too much"},
	Russian: {"вместо бана: ", "его адрес прочёл слишком много", "его сеть прочла слишком много"},
}

// Reason says what the reason of a ban names, "proof: false_crawler" or "formula: agent_library, client_loads_1m", or that of a question. Other reasons
// are returned as they are.
func Reason(l Language, reason string) string {
	of, in := of(l), asked[l]
	if in[0] == "" {
		in = asked[English]
	}
	switch rest, ok := strings.CutPrefix(reason, asked[English][0]); {
	case ok:
		return in[0] + Reason(l, rest)
	case reason == "budget: address":
		return in[1]
	case reason == "budget: network":
		return in[2]
	}
	if rule, ok := strings.CutPrefix(reason, "proof: "); ok && of[rule] != (phrase{}) {
		return of[rule].before + " (" + rule + ")"
	}
	names, ok := strings.CutPrefix(reason, "formula: ")
	if !ok {
		return reason
	}
	var all []string
	for name := range strings.SplitSeq(names, ", ") {
		p, ok := of[name]
		if !ok {
			return reason
		}
		all = append(all, p.name())
	}
	return strings.Join(all, "; ") + " (" + names + ")"
}
