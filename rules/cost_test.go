package rules

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/rules/skeleton"
)

func TestTimeLimit(t *testing.T) {
	at := time.Unix(0, 0)
	o := DefaultOptions()
	o.Now = func() time.Time { at = at.Add(400 * time.Millisecond); return at }
	p, err := Compile(strings.Repeat(`do regexpCheck(regexp="a") `, 10), o)
	if err != nil {
		t.Fatal(err)
	}
	var r Run
	var f *Fault
	if err := p.Run(context.Background(), newWorld().env(), &r); !errors.As(err, &f) || f.Code != codeUnexpected {
		t.Errorf("got %v", err)
	}
}

// TestLateOnce: a run that stands still once, as on a busy machine, is finished; one that is late again is not.
func TestLateOnce(t *testing.T) {
	for name, c := range map[string]struct {
		still []int // before which readings of the clock it stands still
		late  bool
	}{"never": {nil, false}, "once": {[]int{2}, false}, "at the end": {[]int{4}, false}, "twice": {[]int{2, 4}, true}} {
		at, readings := time.Unix(0, 0), 0
		o := DefaultOptions()
		o.Now = func() time.Time {
			if readings++; slices.Contains(c.still, readings) {
				at = at.Add(time.Minute)
			}
			return at
		}
		p, err := Compile(strings.Repeat(`do regexpCheck(regexp="a") `, 3)+"stop as OK", o)
		if err != nil {
			t.Fatal(err)
		}
		var r Run
		var f *Fault
		err = p.Run(context.Background(), newWorld().env(), &r)
		if late := errors.As(err, &f) && f.Slow; late != c.late || (r.Decision() == "OK") == late {
			t.Errorf("%s: %s, %v", name, r.Decision(), err)
		}
	}
}

// TestFloodReference compares with a slow and obvious count.
func TestFloodReference(t *testing.T) {
	var r Run
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("аbБ в\t1")), 0, 40, -1).Draw(t, "text")
		l := floodLimits{minLength: rapid.Int64Range(0, 20).Draw(t, "least"), minMean: float64(rapid.IntRange(0, 30).Draw(t, "mean"))/10 + 0.01, variance: float64(rapid.IntRange(0, 30).Draw(t, "variance"))/10 + 0.01}
		if got, want := r.flood(text, l), slowFlood(text, l); got != want {
			t.Fatalf("%q, %+v: %v, want %v", text, l, got, want)
		}
	})
}

func slowFlood(text string, l floodLimits) bool {
	text, _ = new(skeleton.Reader).Read(text)
	runes := []rune(strings.ToLower(strings.Join(strings.Fields(text), "")))
	if int64(len(runes)) < l.minLength {
		return false
	}
	counts := map[string]float64{}
	for i := 0; i+3 <= len(runes); i++ {
		counts[string(runes[i:i+3])]++
	}
	mean, variance := 0.0, 0.0
	for _, n := range counts {
		mean += n / float64(len(counts))
	}
	for _, n := range counts {
		if len(counts) > 1 {
			variance += (n - mean) * (n - mean) / float64(len(counts)-1)
		}
	}
	return mean > l.minMean && variance < l.variance
}

func TestZeroAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p, err := Compile(`do lengthCheck(minLength=1) mark a
do regexpCheck(regexp="(?i).*\bgood\b") mark b
do regexpCheck(regexp="[A-Z]\w+, \w+ [^\W]+$") mark b
do messageFloodCheck() mark c
do attributeCheck(attribute="ip", value="10.1.2.3") mark d
do networkCheck(networks="10.0.0.0/8") mark e score 2
do scoreOver(limit=1) mark over
if not a, b, c stop as OK`, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var r Run
	env := newWorld().env()
	if n := testing.AllocsPerRun(1000, func() {
		if err := p.Run(context.Background(), env, &r); err != nil || r.Decision() != "OK" {
			t.Fatal(err, r.Decision(), r.AppendTags(nil))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRun(b *testing.B) {
	p, err := Compile(`do lengthCheck(minLength=1, maxLength=1000) mark invalid
if invalid skip to 1000
do regexpCheck(regexp="[A-Z]\w+") mark odd
do messageFloodCheck() mark flood
1000: do scoreOver() mark over
if invalid stop as INVALID
stop as OK`, DefaultOptions())
	if err != nil {
		b.Fatal(err)
	}
	env := newWorld().env()
	var r Run
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Run(context.Background(), env, &r); err != nil {
			b.Fatal(err)
		}
	}
}
