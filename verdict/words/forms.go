package words

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

var numbers = regexp.MustCompile(`[0-9]+(,[0-9]{3})*(\.[0-9]+)?`)

// Sprintf formats as fmt.Sprintf does, in words that agree in number: braces hold the forms of a word, which goes by the last number
// before them, "%d {visitor|visitors}". English has two forms, Russian three (1, 2, 5: посетитель|посетителя|посетителей). Braces in
// arguments are no forms.
func Sprintf(l Language, format string, args ...any) string {
	var out strings.Builder
	last := ""
	for {
		head, rest, _ := strings.Cut(format, "{")
		n := min(strings.Count(head, "%")-2*strings.Count(head, "%%"), len(args))
		said := fmt.Sprintf(head, args[:n]...)
		out.WriteString(said)
		if all := numbers.FindAllString(said, -1); len(all) > 0 {
			last = all[len(all)-1]
		}
		args = args[n:]
		if rest == "" {
			return out.String()
		}
		forms, tail, _ := strings.Cut(rest, "}")
		out.WriteString(form(l, forms, last))
		format = tail
	}
}

// agree puts the form that goes with a number in the place of each group of forms of a text; without a number, the last one, which says
// what is counted.
func agree(l Language, text, number string) string {
	for {
		before, rest, ok := strings.Cut(text, "{")
		if !ok {
			return text
		}
		forms, after, _ := strings.Cut(rest, "}")
		text = before + form(l, forms, number) + after
	}
}

// form chooses among forms, which stand in the order one, few (in English: all others), many.
func form(l Language, forms, number string) string {
	all := strings.Split(forms, "|")
	i := len(all) - 1
	if number != "" {
		i = min(i, formOf(l, number))
	}
	return all[i]
}

// formOf returns the place of the form of a number as it is written. Fractions are said in Russian as few are.
func formOf(l Language, number string) int {
	whole, fraction, _ := strings.Cut(strings.ReplaceAll(number, ",", ""), ".")
	digits := []byte(whole + fraction)
	for i, c := range digits {
		if c < '0' || c > '9' {
			return 1
		}
		digits[i] = c - '0'
	}
	tag := language.English
	if l == Russian {
		tag = language.Russian
	}
	switch plural.Cardinal.MatchDigits(tag, digits, len(whole), len(fraction)) {
	case plural.One:
		return 0
	case plural.Many:
		return 2
	}
	return 1
}
