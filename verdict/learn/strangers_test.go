package learn_test

import (
	"context"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/identity"
	"antirobot/replay"
	"antirobot/verdict/formula"
	"antirobot/verdict/learn"
	"antirobot/verdict/processor"
)

const strangers = "../../replay/testdata/strangers"

// TestStranger learns from a log by a stranger, as BenchmarkStrangers does from each: the order is far from chance.
func TestStranger(t *testing.T) {
	if area, _, _, _ := rank(t, "laboratory"); area < 0.75 {
		t.Errorf("the area is %.3f", area)
	}
}

// BenchmarkStrangers learns from each log by strangers with half of its people known and no robot labelled, ranks the
// other people and the robots, and prints how well.
func BenchmarkStrangers(b *testing.B) {
	logs, err := filepath.Glob(strangers + "/*.log.gz")
	if err != nil || len(logs) != 13 {
		b.Fatalf("%d logs, %v", len(logs), err)
	}
	for b.Loop() {
		sum := 0.0
		for _, log := range logs {
			site := strings.TrimSuffix(filepath.Base(log), ".log.gz")
			area, people, robots, card := rank(b, site)
			b.Logf("%-11s area %.3f of %d people and %d robots; known people against others %.3f (from %.3f)",
				site, area, people, robots, card.Learnt.Area, card.Learnt.Low)
			sum += area
		}
		b.ReportMetric(sum/float64(len(logs)), "mean-area")
	}
}

// rank returns the area under the ROC curve of the robots and those people of a log who were not known.
func rank(t testing.TB, site string) (area float64, people, robots int, card *learn.Card) {
	file, err := os.Open(filepath.Join(strangers, site+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	labels, err := replay.ReadLabels(file)
	if err != nil {
		t.Fatal(err)
	}
	of := map[identity.Subject]bool{} // robot
	for who, known := range labels {
		of[identity.TextSubject(identity.KindI, []byte(who))] = known.Label == replay.LabelRobot
	}
	vectors := map[identity.Subject]*learn.Vectors{} // kept as a gateway keeps them
	replayLog(t, site, func(s identity.Subject, _ uint16, _ time.Time, x []float32, _ float32) {
		if _, labelled := of[s]; !labelled {
			return
		}
		if vectors[s] == nil {
			vectors[s] = &learn.Vectors{}
		}
		vectors[s].Add(pick(x))
	})
	var samples []learn.Sample
	var robot []bool
	for s, v := range vectors {
		h := fnv.New64a()
		h.Write(s.ID[:])
		key := h.Sum64()
		samples = append(samples, learn.Sample{Subject: key, Known: !of[s] && key>>32%2 == 0, Vectors: *v})
		robot = append(robot, of[s])
	}
	card, scores, err := learn.Fit(context.Background(), samples, learn.Options{Service: site, At: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var rest []formula.Sample
	for i, score := range scores {
		if !samples[i].Known {
			rest = append(rest, formula.Sample{Score: float32(1 / (1 + math.Exp(-float64(score)))), Robot: robot[i]})
		}
	}
	e := formula.Evaluate(rest)
	return float64(e.AUC), e.People, e.Robots, card
}

// pick returns the features that are learnt from.
func pick(x []float32) []float32 {
	var out []float32
	names := processor.FactorNames()
	for _, f := range learn.Features {
		for i, n := range names {
			if n == f {
				out = append(out, x[i])
			}
		}
	}
	return out
}

func replayLog(t testing.TB, site string, o processor.Observer) {
	cfg, err := config.Read("", func(c *config.Config) { c.OverrideUpstreams([]string{"http://127.0.0.1:1"}) })
	if err != nil {
		t.Fatal(err)
	}
	g, err := replay.NewGateway(cfg, replay.Deps{Name: "the defaults", Observer: o, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	from := "column:10"
	if site == "reference" {
		from = "column:visitor"
	}
	who, err := replay.ParseIdentity(from)
	if err != nil {
		t.Fatal(err)
	}
	in, err := replay.Files(filepath.Join(strangers, site+".log.gz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	how := replay.Options{Identity: who, Window: replay.DefaultWindow, Now: time.Now()}
	log, err := replay.Open(context.Background(), in, how)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := replay.Runner{Gateway: g}
	if _, err := r.Run(context.Background(), log); err != nil {
		t.Fatal(err)
	}
}
