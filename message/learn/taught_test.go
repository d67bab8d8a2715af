package learn

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"antirobot/message/learn/corpus"
)

// TestPrints checks that taught texts are found again when a tenth of their words is replaced and when they are disguised,
// and that other texts are not.
func TestPrints(t *testing.T) {
	sets, _ := corpus.Load(t)
	now := time.Unix(1000, 0)
	var r Printer
	random := rand.New(rand.NewSource(1))
	for name, data := range sets {
		s := NewPrints(10_000)
		for _, d := range data {
			if p, ok := r.Print(d.Text); ok && d.Bad {
				s.Add(p, now.Add(time.Hour))
			}
		}
		var bad, changed, hidden, good, wrong float64
		for _, d := range data {
			p, ok := r.Print(d.Text)
			words := strings.Fields(d.Text)
			switch {
			case !ok || d.Bad && len(words) < 10:
			case !d.Bad:
				good++
				if s.Find(&p, now) > 0 {
					wrong++
				}
			default:
				bad++
				disguised := strings.Join(strings.Split(d.Text, "e"), "e\u200b")
				if p, _ := r.Print(disguised); s.Find(&p, now) > 0 {
					hidden++
				}
				for _, i := range random.Perm(len(words))[:(len(words)+5)/10] {
					words[i] = fmt.Sprintf("w%d", random.Intn(1e6))
				}
				if p, _ := r.Print(strings.Join(words, " ")); s.Find(&p, now) > 0 {
					changed++
				}
			}
		}
		t.Logf("%s: found again %.3f with a tenth of the words replaced, %.3f with hidden characters; %.4f of good texts are like one", name, changed/bad, hidden/bad, wrong/good)
		if changed/bad < 0.95 || hidden/bad < 0.995 || wrong/good > 0.005 {
			t.Errorf("%s: %.3f, %.3f, %.4f", name, changed/bad, hidden/bad, wrong/good)
		}
	}
}

func TestPrintsEnd(t *testing.T) {
	now := time.Unix(1000, 0)
	var r Printer
	text := func(i int) Print {
		p, ok := r.Print(fmt.Sprintf("some words a%d b%d c%d d%d", i, i, i, i))
		if !ok {
			t.Fatal("no print")
		}
		return p
	}
	if _, ok := r.Print("three words only"); ok {
		t.Error("a print of three words")
	}
	s := NewPrints(50)
	for i := range 60 {
		s.Add(text(i), now.Add(time.Minute))
		s.Add(text(i), now.Add(time.Minute))
	}
	first, last := text(0), text(59)
	if s.Len() != 50 || s.Find(&first, now) == 1 || s.Find(&last, now) != 1 || s.Find(&last, now.Add(time.Minute)) != 0 {
		t.Errorf("%d prints, %v, %v", s.Len(), s.Find(&first, now), s.Find(&last, now))
	}
	if s.Remove(&last, now); s.Find(&last, now) != 0 {
		t.Error("still there")
	}
	if s.Remove(&last, now.Add(time.Minute)); s.Len() != 0 || len(s.bands) != 0 {
		t.Errorf("%d prints and %d bands are left", s.Len(), len(s.bands))
	}
}
