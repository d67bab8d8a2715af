package formula

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAUCIsThePairs: the area equals the share of pairs in which the robot scores higher.
func TestAUCIsThePairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var samples []Sample
		for range rapid.IntRange(2, 60).Draw(t, "n") {
			samples = append(samples, Sample{Score: float32(rapid.IntRange(0, 10).Draw(t, "score")) / 10, Robot: rapid.Bool().Draw(t, "robot")})
		}
		var won, pairs float64
		for _, a := range samples {
			for _, b := range samples {
				if !a.Robot || b.Robot {
					continue
				}
				pairs++
				switch {
				case a.Score > b.Score:
					won++
				case a.Score == b.Score:
					won += 0.5
				}
			}
		}
		e := Evaluate(samples)
		if pairs == 0 {
			if !math.IsNaN(float64(e.AUC)) {
				t.Fatalf("AUC %v of nothing", e.AUC)
			}
			return
		}
		if math.Abs(float64(e.AUC)-won/pairs) > 1e-9 || e.Low > e.AUC || e.High < e.AUC {
			t.Fatalf("AUC %v in [%v, %v], the pairs say %v", e.AUC, e.Low, e.High, won/pairs)
		}
		for _, p := range e.Points {
			robots, people := 0, 0
			for _, s := range samples {
				if s.Score > p.Threshold && s.Robot {
					robots++
				} else if s.Score > p.Threshold {
					people++
				}
			}
			if p.Banned != robots || p.Wronged != people {
				t.Fatalf("threshold %v: %d robots and %d people, want %d and %d", p.Threshold, p.Banned, p.Wronged, robots, people)
			}
		}
		for _, wanted := range []float64{0, 0.1, 0.5, 1} {
			s := e.Suggest(samples, wanted)
			if float64(s.Wronged) > wanted*float64(e.People) {
				t.Fatalf("the suggestion for %v bans %d of %d people", wanted, s.Wronged, e.People)
			}
			if lower := e.at(samples, s.Threshold-0.05); s.Threshold > 0 && float64(lower.Wronged) <= wanted*float64(e.People) {
				t.Fatalf("for %v a threshold under %v would do too", wanted, s.Threshold)
			}
			if float64(s.Bound) < float64(s.Wronged)/max(1, float64(e.People))-1e-9 {
				t.Fatalf("the bound %v is below the rate", s.Bound)
			}
		}
	})
}

func TestEvaluateByHand(t *testing.T) {
	samples := []Sample{{0.9, true}, {0.8, true}, {0.7, false}, {0.6, true}, {0.2, false}, {0.1, false}}
	e := Evaluate(samples)
	if got := float64(e.AUC); math.Abs(got-8.0/9) > 1e-9 {
		t.Errorf("AUC %v, want 8/9", got)
	}
	p := e.at(samples, 0.65)
	if p.Banned != 2 || p.Wronged != 1 || math.Abs(float64(p.Precision)-2.0/3) > 1e-9 || math.Abs(float64(p.Recall)-2.0/3) > 1e-9 {
		t.Errorf("at 0.65: %+v", p)
	}
	if s := e.Suggest(samples, 0); s.Threshold != 0.7 || s.Banned != 2 || s.Wronged != 0 || s.Bound < 0.3 {
		t.Errorf("without false positives: %+v", s)
	}
	if got := float64(e.Average); math.Abs(got-(1+1+3.0/4)/3) > 1e-9 || e.AverageLow > e.Average || e.AverageHigh < e.Average {
		t.Errorf("average precision %v in [%v, %v]", got, e.AverageLow, e.AverageHigh)
	}
	if e.BetterThanChance() {
		t.Error("six samples with a wrong one are better than chance")
	}
	if first, last := e.Curve[0], e.Curve[len(e.Curve)-1]; first.FPR != 0 || last.FPR != 1 || last.Recall != 1 {
		t.Errorf("the curve goes from %+v to %+v", first, last)
	}
	if _, err := json.Marshal(Evaluate(nil)); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

// TestChance: few samples prove nothing, however good they look; many do, and those without order never.
func TestChance(t *testing.T) {
	f := func(robots, people int, score func(i int, robot bool) float32, want bool) {
		t.Helper()
		var samples []Sample
		for i := range robots + people {
			samples = append(samples, Sample{score(i, i < robots), i < robots})
		}
		if e := Evaluate(samples); e.BetterThanChance() != want {
			t.Errorf("%d robots, %d people, AUC %v (%v to %v): %v", robots, people, e.AUC, e.Low, e.High, !want)
		}
	}
	perfect := func(_ int, robot bool) float32 {
		if robot {
			return 0.9
		}
		return 0.1
	}
	f(0, 10, perfect, false)
	f(1, 20, perfect, false) // one of 21 orders
	f(1, 60, perfect, true)
	f(2, 2, perfect, false)
	f(5, 5, perfect, true)
	f(200, 200, func(int, bool) float32 { return 0.5 }, false)
	f(200, 200, func(i int, robot bool) float32 { return 1 - perfect(i, robot) }, false)
	f(500, 500, func(i int, _ bool) float32 { return float32(i*7919%1000) / 1000 }, false)
}

// TestCalibration: bins say how often a score is right.
func TestCalibration(t *testing.T) {
	var samples []Sample
	for i := range 100 {
		samples = append(samples, Sample{0.25, i < 25}, Sample{0.85, i < 25})
	}
	e := Evaluate(samples)
	if len(e.Calibration) != 2 || e.Calibration[0].Robots != 25 || e.Calibration[1].Count != 100 || math.Abs(float64(e.CalibrationError)-0.3) > 1e-6 {
		t.Errorf("%+v, error %v", e.Calibration, e.CalibrationError)
	}
}

func TestReadRows(t *testing.T) {
	const data = "label,kind,subject,at,score,b,other,a\n1,ip,x,2026-01-01T00:00:00Z,0.5,,9,1.5\n,i,y,,,NaN,,\n0,i,\"z,z\",,,2,,3\n"
	var rows []Row
	lacks, extra, err := ReadRows(strings.NewReader(data), []string{"a", "b", "c"}, func(r *Row) error {
		c := *r
		c.Factors = append([]float32(nil), r.Factors...)
		rows = append(rows, c)
		return nil
	})
	if err != nil || strings.Join(lacks, " ") != "c" || strings.Join(extra, " ") != "other" || len(rows) != 3 {
		t.Fatalf("%v, lacks %v, extra %v, %d rows", err, lacks, extra, len(rows))
	}
	if r := rows[0]; r.Label != Robot || r.Kind != "ip" || r.Subject != "x" || r.Factors[0] != 1.5 || !isNaN(r.Factors[1]) || !isNaN(r.Factors[2]) || r.Line != 2 {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Label != Unlabelled || !isNaN(r.Factors[0]) || !isNaN(r.Factors[1]) {
		t.Errorf("%+v", r)
	}
	if r := rows[2]; r.Label != Person || r.Subject != "z,z" || r.Factors[0] != 3 {
		t.Errorf("%+v", r)
	}
	f := func(data, want string) {
		t.Helper()
		_, _, err := ReadRows(strings.NewReader(data), []string{"a"}, func(*Row) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", data, err, want)
		}
	}
	f("", "the file is empty")
	f("a\n1\n", "no column label")
	f("label,x\n1,1\n", "no column is a factor")
	f("label,a,a\n1,1,1\n", `column "a" occurs twice`)
	f("label,a\nrobot,1\n", `line 2: label: "robot" is neither`)
	f("label,a\n1,1\n1,fast\n", `line 3: a: "fast" is not a number`)
	f("label,a\n1\n", "line 2")
}

func FuzzReadRows(f *testing.F) {
	f.Add("label,a\n1,2\n")
	f.Fuzz(func(t *testing.T, data string) {
		_, _, _ = ReadRows(strings.NewReader(data), []string{"a", "b"}, func(r *Row) error {
			if len(r.Factors) != 2 {
				t.Fatal("another number of factors")
			}
			return nil
		})
	})
}
