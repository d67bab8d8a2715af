//go:build !race

package learn

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"antirobot/message/learn/corpus"
)

// disguises are what spammers do to a text that was found.
func disguises(good []string) map[string]func(text string, r *rand.Rand) string {
	replace := func(pairs ...string) func(string, *rand.Rand) string {
		n := strings.NewReplacer(pairs...)
		return func(text string, _ *rand.Rand) string { return n.Replace(text) }
	}
	each := func(f func(c rune, r *rand.Rand) string) func(string, *rand.Rand) string {
		return func(text string, r *rand.Rand) string {
			var b strings.Builder
			for _, c := range text {
				b.WriteString(f(c, r))
			}
			return b.String()
		}
	}
	shifted := func(lower, upper rune) func(string, *rand.Rand) string {
		return each(func(c rune, _ *rand.Rand) string {
			switch {
			case 'a' <= c && c <= 'z':
				return string(lower + c - 'a')
			case 'A' <= c && c <= 'Z':
				return string(upper + c - 'A')
			}
			return string(c)
		})
	}
	return map[string]func(string, *rand.Rand) string{
		"two hundred good words around": func(text string, r *rand.Rand) string {
			var words []string
			for len(words) < 200 {
				words = append(words, strings.Fields(good[r.Intn(len(good))])...)
			}
			return strings.Join(words[:100], " ") + " " + text + " " + strings.Join(words[100:200], " ")
		},
		"fillers":       each(func(c rune, _ *rand.Rand) string { return string(c) + "\u3164" }),
		"zero width":    each(func(c rune, _ *rand.Rand) string { return string(c) + "\u200b" }),
		"entities":      each(func(c rune, _ *rand.Rand) string { return fmt.Sprintf("&#%d;", c) }),
		"full width":    shifted('ａ', 'Ａ'),
		"squared":       shifted(0x1f130, 0x1f130),
		"mathematical":  shifted(0x1d41a, 0x1d400),
		"look-alikes":   replace("a", "а", "e", "е", "o", "о", "c", "с", "p", "р", "x", "х", "а", "a", "е", "e", "о", "o", "с", "c", "р", "p", "х", "x"),
		"digits":        replace("e", "3", "i", "1", "o", "0", "о", "0", "з", "3"),
		"marks":         each(func(c rune, _ *rand.Rand) string { return string(c) + "\u0336" }),
		"small letters": replace("a", "ᴀ", "e", "ᴇ", "i", "ɪ", "n", "ɴ", "r", "ʀ", "t", "ᴛ"),
	}
}

// TestDisguise checks that what is found plain is found disguised and padded as well.
func TestDisguise(t *testing.T) {
	sets, whole := corpus.Load(t)
	least := 0.8 // with few texts
	if whole {
		least = 0.9
	}
	for name, data := range sets {
		m := New(Default, 1<<20)
		var good, bad []string
		for _, d := range data {
			switch {
			case !heldOut(d.Text):
				m.Train(d.Text, !d.Bad)
			case d.Bad:
				bad = append(bad, d.Text)
			default:
				good = append(good, d.Text)
			}
		}
		m.Fit()
		for how, f := range disguises(good) {
			r := rand.New(rand.NewSource(1))
			plain, found := 0.0, 0.0
			for _, text := range bad {
				if m.Score(text) <= 0.5 {
					continue
				}
				plain++
				if m.Score(f(text, r)) > 0.5 {
					found++
				}
			}
			wrong := 0
			for _, text := range good {
				if m.Score(f(text, r)) > 0.5 {
					wrong++
				}
			}
			t.Logf("%-4s %-30s %.3f of %d are found again; of good texts %d of %d are called bad", name, how, found/plain, int(plain), wrong, len(good))
			if found/plain < least {
				t.Errorf("%s, %s: %.3f are found again", name, how, found/plain)
			}
		}
	}
}

// TestFeaturesAreLinear: a long run of what hosts consist of is looked at once, not from each of its places.
func TestFeaturesAreLinear(t *testing.T) {
	x := newExtractor(newStemCache(1000))
	for _, piece := range []string{".", "-", ".-", "ab.", "ab.c9."} {
		text, quick := strings.Repeat(piece, 1<<17/len(piece)), false
		for n := 0; n < 3 && !quick; n++ { // a busy machine may need several
			began := time.Now()
			x.of(text)
			quick = time.Since(began) < time.Second
		}
		if !quick {
			t.Errorf("128 KiB of %q take more than a second", piece)
		}
	}
}
