package learn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTableBound checks that a model forgets the rarest and keeps what is frequent.
func TestTableBound(t *testing.T) {
	m := newBayes(2000)
	for i := range 3000 {
		m.Train(fmt.Sprintf("casino bonus w%dx%d", i, i*7919), false)
		m.Train(fmt.Sprintf("library book w%dy%d", i, i*104729), true)
	}
	if size := m.Size(); size.Features > 2000 || size.Bytes > 1<<17 {
		t.Errorf("%+v", size)
	}
	if m.Score("casino bonus") < 0.9 || m.Score("a library book") > 0.1 {
		t.Errorf("forgot the frequent: %f, %f", m.Score("casino bonus"), m.Score("a library book"))
	}
}

// TestFewTexts checks that a model of a handful of texts, of one kind or very unequal in number, is sensible.
func TestFewTexts(t *testing.T) {
	for _, kind := range []string{Default, Robinson} {
		m := New(kind, 1<<16)
		f := func(text string, bad bool) {
			t.Helper()
			if got := m.Score(text); (got > 0.5) != bad {
				t.Errorf("%s: %q scores %.3f", kind, text, got)
			}
		}
		f("anything", false)
		m.Train("cheap viagra pills", false)
		f("viagra", true)
		f("hello there", false) // unknown words
		f("vikings", false)
		m.Train("hello my dear friend", true)
		f("hello", false)
		f("cheap pills for a friend", true)
		for i := range 200 {
			m.Train(fmt.Sprintf("an ordinary letter %d about work and weather", i), true)
		}
		f("pills", true)
		f("dear", false)
		f("ordinary weather", false)
		f("completely different", false)
		f("", false)
		f("12345", false)
		f("!!! $$$", false)
	}
}

func TestLookAlikes(t *testing.T) {
	m := newBayes(1 << 16)
	for range 3 {
		m.Train("лучшее казино, casino бонус сегодня", false)
		m.Train("лучшее время для прогулки сегодня", true)
	}
	for _, text := range []string{"казино", "кaзинo", "КАЗИНО", "ка\u200bзи\u00adно", "c4sino", "сasinо", "ｃａｓｉｎｏ", "𝐜𝐚𝐬𝐢𝐧𝐨", "казинo!!!", "бонусы", "бонусов"} {
		if got := m.Score(text); got <= 0.5 {
			t.Errorf("%q scores %.3f", text, got)
		}
	}
	for _, text := range []string{"прогулка", "прогулками", "время"} {
		if got := m.Score(text); got > 0.5 {
			t.Errorf("%q scores %.3f", text, got)
		}
	}
	spoke := m.Explain("казино для прогулки")
	if len(spoke) == 0 || !slices.ContainsFunc(spoke, func(s Spoke) bool { return s.Token == "word казино" && s.Weight > 0 && s.Bad == 3 }) {
		t.Errorf("explained %v", spoke)
	}
}

func TestLinks(t *testing.T) {
	x := newExtractor(newStemCache(64))
	x.explain = true
	x.of("See HTTPS://WWW.Evil.example/path?x=1 and evil.ru, t.me/+abc www.shop.com; a.b is not a host, 3.14 neither")
	var hosts []string
	for _, n := range x.names {
		if h, ok := strings.CutPrefix(n, "host "); ok {
			hosts = append(hosts, h)
		}
	}
	want := []string{"evil.example", ".example", "evil.ru", ".ru", "t.me", ".me", "shop.com", ".com"}
	if !slices.Equal(hosts, want) {
		t.Errorf("hosts %q, want %q", hosts, want)
	}
}
