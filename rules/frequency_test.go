package rules

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

func TestFrequency(t *testing.T) {
	w := newWorld()
	say := func(src, text string, want string) {
		t.Helper()
		w.values["text"] = Value{Kind: Text, Text: text}
		if got := judge(t, src, w); got != want {
			t.Errorf("%q: %s: got %q, want %q", text, src, got, want)
		}
	}
	const message = `do messageFrequencyCheck(count=2) mark often`
	say(message, "Buy it now, friends", "UNKNOWN")
	say(message, "buy IT now, friends", "UNKNOWN")
	say(message, " buy it\tnow,\nfri ends", "UNKNOWN often")
	say(message, "buy it now friends", "UNKNOWN") // the comma counts: it is not letters alone
	say(message, "КУПИ СЕЙЧАС ЖЕ", "UNKNOWN")
	say(message, "купи сейчас же", "UNKNOWN")
	say(message, "купи сейчас же", "UNKNOWN often")
	say(`do messageFrequencyCheck(count=2, storage="other") mark often`, "buy it now, friends", "UNKNOWN")
	say(`do messageFrequencyCheck(count=2, timeout=60) mark often`, "buy it now, friends", "UNKNOWN")
	const user = `do userFrequencyCheck(attribute="text", count=1) mark often`
	say(user, "Ann", "UNKNOWN")
	say(user, "ann", "UNKNOWN") // a value is a value
	say(user, "Ann", "UNKNOWN often")
}

func TestNearDuplicate(t *testing.T) {
	w := newWorld()
	const src = `do nearDuplicateCheck(count=1) mark near`
	say := func(text string, want string) {
		t.Helper()
		w.values["text"] = Value{Kind: Text, Text: text}
		if got := judge(t, src, w); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	say("Dear friends, today only we sell the best watches of Switzerland at half the price, call Ann at 555-1234 and do not be late", "UNKNOWN")
	say("dear friends: today only we sell the best watches of Switzerland at half the price! Call Bob at 555-9876 and do not be late", "UNKNOWN near")
	say("I would like to know whether the library is open next Sunday, because my children want to return the books they borrowed", "UNKNOWN")
	say("too short to be checked", "UNKNOWN")
	say("too short to be checked", "UNKNOWN")
}

// TestDisguisedDuplicates checks that a text which is disguised each time anew is the same text.
func TestDisguisedDuplicates(t *testing.T) {
	for _, text := range []string{
		"Лучшее казино города, бонус каждому", "Лучшее кaзинo города, бoнус каждому", "Луч\u200bшее каз\u3164ино города, бонус ка\u00adждому",
		"Лучшее к а з и н о города, бонус каждому", "&#1051;учшее казино города, бонус каждому",
	} {
		w := newWorld()
		for i, said := range []string{"Лучшее казино города, бонус каждому", text} {
			w.values["text"] = Value{Kind: Text, Text: said}
			want := "UNKNOWN"
			if i == 1 {
				want = "UNKNOWN often"
			}
			if got := judge(t, `do messageFrequencyCheck(count=1) mark often`, w); got != want {
				t.Errorf("%q: got %q, want %q", said, got, want)
			}
		}
	}
}

// TestNearDuplicateWords checks that texts of twenty words are found again with every tenth word replaced, and that
// other texts are not.
func TestNearDuplicateWords(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	words := func(n int) (out []string) {
		for range n {
			out = append(out, fmt.Sprintf("w%d", random.Intn(3000)))
		}
		return out
	}
	const rounds = 300
	found, wrong := 0, 0
	for range rounds {
		w := newWorld()
		text := words(40)
		other := words(40)
		say := func(text []string) bool {
			w.values["text"] = Value{Kind: Text, Text: strings.Join(text, " ")}
			return judge(t, `do nearDuplicateCheck(count=1) mark near`, w) == "UNKNOWN near"
		}
		say(text)
		for _, i := range random.Perm(len(text))[:4] {
			text[i] = words(1)[0]
		}
		if say(text) {
			found++
		}
		if say(other) {
			wrong++
		}
	}
	t.Logf("found again %d of %d, others %d", found, rounds, wrong)
	if found < rounds*80/100 || wrong > 0 {
		t.Errorf("found again %d of %d, others %d", found, rounds, wrong)
	}
}
