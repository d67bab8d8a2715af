package formula

import (
	"math"
	"strings"
	"testing"
)

// TestReweigh: the weights of the built-in card are found, changed one by one, and its comments and everything else stay.
func TestReweigh(t *testing.T) {
	data, _ := Builtin("default")
	all := Weights(data)
	if len(all) < 50 || all[0].Why != "bias" || all[0].Value != -4 || all[1].Factor == "" || all[1].When == "" {
		t.Fatalf("found %d weights, first %+v", len(all), all[:min(2, len(all))])
	}
	same, err := Reweigh(data, nil)
	if err != nil || !strings.Contains(string(same), "# Weights are log-odds") {
		t.Fatalf("unchanged: %v", err)
	}
	next, err := Reweigh(data, map[int]float64{0: -3, 1: 7.25})
	if err != nil {
		t.Fatal(err)
	}
	changed := Weights(next)
	for i := range changed {
		want := all[i].Value
		switch i {
		case 0:
			want = -3
		case 1:
			want = 7.25
		}
		if changed[i].Value != want || changed[i].Factor != all[i].Factor || changed[i].When != all[i].When {
			t.Errorf("weight %d is %+v, was %+v", i, changed[i], all[i])
		}
	}
	for _, wrong := range []map[int]float64{{-1: 0}, {len(all): 0}, {1: 101}, {1: math.NaN()}} {
		if _, err := Reweigh(data, wrong); err == nil {
			t.Errorf("%v was taken", wrong)
		}
	}
}

// FuzzWeights: no card makes it fail, and what is changed is found again.
func FuzzWeights(f *testing.F) {
	f.Add([]byte("version: a\nbias: -1\nfactors: [{name: x, bins: [{is: 1, weight: 2}]}]\n"))
	f.Add([]byte("bias: &a 1\nrules: [{weight: *a}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all := Weights(data)
		if len(all) == 0 {
			return
		}
		next, err := Reweigh(data, map[int]float64{len(all) - 1: 5})
		if err != nil {
			t.Fatal(err)
		}
		if again := Weights(next); len(again) != len(all) || again[len(all)-1].Value != 5 {
			t.Fatalf("%q: %+v, was %+v", next, again, all)
		}
	})
}
