package learn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"antirobot/message/learn/corpus"
)

// TestTableBound checks that a model forgets the rarest and keeps what is frequent.
func TestTableBound(t *testing.T) {
	m := newBayes(600)
	for i := range 400 {
		m.Train(fmt.Sprintf("casino bonus w%dx%d", i, i*7919), false)
		m.Train(fmt.Sprintf("library book w%dy%d", i, i*104729), true)
	}
	m.Fit()
	if m.counts.used > 600 {
		t.Errorf("%d features", m.counts.used)
	}
	if m.Score("casino bonus") < 0.9 || m.Score("a library book") > 0.1 {
		t.Errorf("forgot the frequent: %f, %f", m.Score("casino bonus"), m.Score("a library book"))
	}
}

// TestNotReady checks that a model judges nothing before it knows enough: one click must not make good texts bad.
func TestNotReady(t *testing.T) {
	m := New(Default, 1<<16)
	m.Train("cheap viagra pills", false)
	m.Fit()
	if m.Ready() || m.Score("cheap viagra pills") > 0.5 {
		t.Errorf("one text: ready %t, score %f", m.Ready(), m.Score("cheap viagra pills"))
	}
	for i := range LeastGood {
		m.Train(fmt.Sprintf("an ordinary letter %d about work and weather", i), true)
	}
	if m.Fit(); m.Ready() {
		t.Error("ready after one bad text")
	}
	for i := range LeastBad {
		m.Train(fmt.Sprintf("cheap viagra pills %d for you", i), false)
	}
	if m.Fit(); !m.Ready() || m.Score("cheap pills") <= 0.5 || m.Score("the weather at work") > 0.5 || m.Score("something unknown") > 0.5 {
		t.Errorf("ready %t: %f, %f, %f", m.Ready(), m.Score("cheap pills"), m.Score("the weather at work"), m.Score("something unknown"))
	}
}

// TestFewTexts checks that good texts are safe from the first judgement on, also where few texts were taught or very
// unequal numbers of both kinds, and that bad ones are found nevertheless.
func TestFewTexts(t *testing.T) {
	sets, _ := corpus.Load(t)
	for _, n := range [][2]int{{10, 25}, {15, 500}, {100, 25}, {50, 50}} {
		var good, bad []string
		for _, d := range sets["sms"] {
			if d.Bad {
				bad = append(bad, d.Text)
			} else {
				good = append(good, d.Text)
			}
		}
		taught := min(n[1], len(good)/2)
		m := New(Default, 1<<18)
		for _, text := range bad[:n[0]] {
			m.Train(text, false)
		}
		for _, text := range good[:taught] {
			m.Train(text, true)
		}
		m.Fit()
		share := func(texts []string) float64 {
			over := 0
			for _, text := range texts {
				if m.Score(text) > 0.5 {
					over++
				}
			}
			return float64(over) / float64(len(texts))
		}
		wrong, found := share(good[taught:min(len(good), taught+300)]), share(bad[n[0]:min(len(bad), n[0]+100)])
		t.Logf("%d bad and %d good texts: %.3f of good ones are called bad, %.3f of bad ones", n[0], taught, wrong, found)
		if wrong > 0.03 || found < 0.4 {
			t.Errorf("%d bad and %d good texts: %.3f of good ones are called bad, %.3f of bad ones", n[0], taught, wrong, found)
		}
	}
}

// TestShares checks that the model is fitted well whatever the ratio of good texts to bad ones is: each fold has both.
func TestShares(t *testing.T) {
	for _, n := range [][2]int{{60, 30}, {30, 60}, {75, 30}} {
		m := newBayes(1 << 16)
		for i := range n[1] {
			m.Train(fmt.Sprintf("cheap pills and a casino bonus number %d", i), false)
		}
		for i := range n[0] {
			m.Train(fmt.Sprintf("a letter about work and the weather on day %d", i), true)
		}
		m.Fit()
		if l := m.fit.Load().blend; l.weights[blendInputs-1] <= 0 {
			t.Errorf("%d good and %d bad texts: the regression counts %.2f", n[0], n[1], l.weights[blendInputs-1])
		}
	}
}

// TestHidden checks that a bad text is found behind thousands of unknown words, and after its own words were spread over a
// long good text, which is good.
func TestHidden(t *testing.T) {
	const bad = " cheap pills for everybody, casino bonus without deposit, credit in five minutes, claim yours now and tell all of your friends"
	m := newBayes(1 << 16)
	var good strings.Builder
	for i := range 120 {
		text := fmt.Sprintf("on day %d we had a letter about work, the garden and the weather", i)
		m.Train(text, true)
		good.WriteString(text + "\n")
	}
	for i := range 20 {
		m.Train(fmt.Sprintf("%s, number %d", bad, i), false)
	}
	m.Fit()
	var unknown, spread strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&unknown, "w%dx ", i*7919)
	}
	words := strings.Fields(good.String())
	for i, w := range strings.Fields(bad) {
		spread.WriteString(strings.Join(words[60*i:60*i+60], " ") + " " + w + " ")
	}
	f := func(text string, found bool) {
		t.Helper()
		if got := m.Score(text); got > 0.5 != found {
			t.Errorf("%.60q… scores %.3f", text, got)
		}
	}
	f(unknown.String(), false)
	f(unknown.String()+bad, true)
	f(spread.String(), false) // a word that comes again counts again, the good ones too
	f(spread.String()+bad, true)
}

func TestLookAlikes(t *testing.T) {
	m := newBayes(1 << 16)
	for i := range LeastGood {
		m.Train("лучшее время для прогулки сегодня "+strconv.Itoa(i), true)
	}
	for i := range LeastBad {
		m.Train("лучшее казино, casino бонус сегодня "+strconv.Itoa(i), false)
	}
	m.Fit()
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
	if len(spoke) == 0 || !slices.ContainsFunc(spoke, func(s Spoke) bool { return s.Token == "word казино" && s.Weight > 0 }) {
		t.Errorf("explained %v", spoke)
	}
}
