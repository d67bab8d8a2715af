package rules

import (
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
