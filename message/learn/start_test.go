//go:build !race

package learn

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"os"
	"slices"
	"testing"

	"antirobot/message/learn/corpus"
	"antirobot/rules"
)

var update = flag.Bool("update", false, "make the built-in start anew")

// heldOut says whether a text is one of the fifth that the start never sees.
func heldOut(text string) bool { return rules.Mix(hashString(text)^0x5eed)%5 == 0 }

// startFalse is the share of good texts of the data that the start may call bad.
const startFalse = 0.001

// makeStart fits the start to the texts that are not held out, and moves its bias so that almost no good one is bad.
func makeStart(sets map[string][]corpus.Text) []byte {
	x := newExtractor(newStemCache(1 << 16))
	var good, bad []example
	for _, name := range []string{"sms", "tg"} {
		for _, d := range sets[name] {
			if heldOut(d.Text) {
				continue
			}
			features, strong := x.of(d.Text)
			if d.Bad {
				bad = append(bad, startExample(features, strong, true, len(bad)))
			} else {
				good = append(good, startExample(features, strong, false, len(good)))
			}
		}
	}
	examples, order := slices.Concat(good, bad), mixed(len(good), len(bad))
	var margins []float64 // of good texts, by a model that was fitted without them
	for fold := range regressionFolds {
		m := regress(examples, order, fold, startBits)
		for i := range examples {
			if e := &examples[i]; e.fold == fold && !e.bad {
				margins = append(margins, m.margin(e))
			}
		}
	}
	slices.Sort(margins)
	m := regress(examples, order, -1, startBits)
	m.bias -= max(0, margins[len(margins)-1-int(startFalse*float64(len(margins)))])
	return appendStart(nil, m)
}

// TestStart judges the texts that the start never saw, and checks that the start is what is made of the others.
func TestStart(t *testing.T) {
	sets, whole := corpus.Load(t)
	if whole {
		made := makeStart(sets)
		if *update {
			if err := os.WriteFile("start-"+StartName+".bin", made, 0o644); err != nil {
				t.Fatal(err)
			}
			startWeights = made
		}
		if !bytes.Equal(made, startWeights) {
			t.Errorf("start-%s.bin is not what is made of the data: run go test ./message/learn -run TestStart -update", StartName)
		}
	}
	s := openStart(startWeights)
	for name, data := range sets {
		var texts []judged
		for _, d := range data {
			if !whole || heldOut(d.Text) {
				texts = append(texts, judged{s.Score(d.Text), d.Bad})
			}
		}
		found, wrong := shares01(texts)
		t.Logf("%s: %d texts: %.3f of bad ones are found, %.4f of good ones are called bad", name, len(texts), found, wrong)
		if found < 0.6 || wrong > 0.015 {
			t.Errorf("%s: %.3f of bad texts are found, %.4f of good ones are called bad", name, found, wrong)
		}
	}
	if spoke := s.Explain("free prize, call now"); len(spoke) == 0 || spoke[0].Token == "" {
		t.Error("nothing spoke")
	}
}

// shares01 returns what share of the bad and of the good texts is called bad.
func shares01(texts []judged) (found, wrong float64) {
	var good, bad float64
	for _, j := range texts {
		over := 0.0
		if j.score > 0.5 {
			over = 1
		}
		if j.bad {
			bad++
			found += over
		} else {
			good++
			wrong += over
		}
	}
	return found / max(1, bad), wrong / max(1, good)
}

// appendStart is the inverse of openStart: each weight becomes one byte.
func appendStart(dst []byte, m *regression) []byte {
	most := float32(0)
	for _, w := range m.weights {
		most = max(most, max(w, -w))
	}
	step := float64(most) / 127
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(m.bias))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(step))
	for _, w := range m.weights {
		dst = append(dst, byte(int8(math.Round(float64(w)/step))))
	}
	return dst
}
