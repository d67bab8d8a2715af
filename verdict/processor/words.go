package processor

import (
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"antirobot/verdict/formula"
)

// cardWords are what the built-in card says of its factors, in words.
var cardWords = sync.OnceValue(func() map[string]string {
	text, _ := formula.Builtin("default")
	var card struct {
		Factors []struct{ Name, Why string }
	}
	if err := yaml.Unmarshal(text, &card); err != nil {
		panic("BUG: the built-in card: " + err.Error())
	}
	words := map[string]string{}
	for _, f := range card.Factors {
		words[f.Name] = f.Why
	}
	return words
})

// yesOrNo is the unit of factors that hold or do not.
const yesOrNo = "0 or 1"

// FactorWords says in plain words what a factor of this value means: "33 page loads in a minute". Of a name that only a later
// version knows it returns the name and the value.
func FactorWords(name string, value float32) string {
	i := indexOf(name)
	words := cardWords()[name]
	switch {
	case i < 0 && words == "":
		return fmt.Sprintf("%s = %.6g", name, value)
	case words == "": // a sentence of docs/factors.md
		words, _, _ = strings.Cut(factors[i].Doc, ".")
		words = strings.ToLower(words[:1]) + words[1:]
	case value == 1 && (i < 0 || factors[i].Unit == "" || factors[i].Unit == yesOrNo):
		return words
	}
	if i >= 0 && factors[i].Unit == "pages" && strings.HasPrefix(words, "page") {
		return fmt.Sprintf("%.3g %s", value, words)
	}
	unit := ""
	if i >= 0 && factors[i].Unit != "" && factors[i].Unit != "share" && factors[i].Unit != yesOrNo {
		unit = " " + factors[i].Unit
	}
	return fmt.Sprintf("%s: %.3g%s", words, value, unit)
}

// ReasonWords says in plain words what the reason of a ban names: "formula: agent_library, hosting". Other reasons are returned
// as they are.
func ReasonWords(reason string) string {
	names, ok := strings.CutPrefix(reason, "formula: ")
	if !ok {
		return reason
	}
	var all []string
	for name := range strings.SplitSeq(names, ", ") {
		words := cardWords()[name]
		if words == "" {
			if i := indexOf(name); i >= 0 {
				words, _, _ = strings.Cut(factors[i].Doc, ".")
				words = strings.ToLower(words[:1]) + words[1:]
			}
		}
		if words == "" {
			return reason
		}
		all = append(all, words)
	}
	return strings.Join(all, "; ") + " (" + names + ")"
}

// indexOf returns where a factor stands in the vector; -1: there is none of this name.
func indexOf(name string) int {
	for i := range factors {
		if factors[i].Name == name {
			return i
		}
	}
	return -1
}
