package message

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"antirobot/message/learn/corpus"
	"antirobot/store"
	"antirobot/store/pebblestore"
)

// BenchmarkExampleRules judges real messages by the example rules with a trained model: the budget is 50,000 a second on
// one core. Users and texts are all different, so every counter is new.
func BenchmarkExampleRules(b *testing.B) {
	sets, _ := corpus.Load(b)
	for name, data := range sets {
		for _, kind := range []string{"memory", "pebble"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				st := benchStore(b, kind)
				s := openSystem(b, DefaultConfig(), st, time.Now)
				defer s.Close()
				data := corpus.Smoke(data)
				d := trained(b, s, data)
				values := map[string]any{"text": "", "from": int64(0)}
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				b.ReportAllocs()
				b.ResetTimer()
				before := cpuTime(b)
				for i := 0; i < b.N; i++ {
					values["text"], values["from"] = data[i%len(data)].Text, int64(i)
					if i >= len(data) {
						values["text"] = fmt.Sprintf("%s %d", data[i%len(data)].Text, i)
					}
					if _, err := s.Judge(context.Background(), d, values, false); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
				b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds(), "messages/cpu-s")
			})
		}
	}
}

// cpuTime is what this process used of all cores: on a busy machine the clock says little.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchStore(b *testing.B, kind string) store.Store {
	if kind == "memory" {
		st := store.NewMemory(nil)
		b.Cleanup(func() { _ = st.Close() })
		return st
	}
	st, err := pebblestore.New(pebblestore.Deps{Dir: filepath.Join(b.TempDir(), "store"), Log: zerolog.Nop(), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	return st
}

// trained sets the example rules and trains the model in memory, and returns the root domain.
func trained(b testing.TB, s *System, data []corpus.Text) *Domain {
	setRules(b, s, "", corpus.ExampleRules)
	d, err := s.Domain("default", "")
	if err != nil {
		b.Fatal(err)
	}
	m, err := d.Model("model")
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range data {
		m.known.Load().learner.Train(x.Text, !x.Bad)
	}
	m.known.Load().learner.Fit()
	return d
}

// BenchmarkTrain learns durably, one text after another: the store's write decides.
func BenchmarkTrain(b *testing.B) {
	sets, _ := corpus.Load(b)
	data := sets["sms"]
	for _, kind := range []string{"memory", "pebble"} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", kind, writers), func(b *testing.B) {
				s := openSystem(b, DefaultConfig(), benchStore(b, kind), time.Now)
				defer s.Close()
				d, _ := s.Domain("default", "")
				m, _ := d.Model("model")
				b.SetParallelism(writers)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						if err := s.Train(context.Background(), m, data[i%len(data)].Text, !data[i%len(data)].Bad); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
			})
		}
	}
}

// TestFloodFalsePositives runs the flood rule over both sets. It is as specified, and takes a few real messages that
// repeat themselves for flood ("Tick, tick, tick ... Babe"); more than one in a thousand would be a mistake of ours.
func TestFloodFalsePositives(t *testing.T) {
	s, _ := newSystem(t, DefaultConfig())
	setRules(t, s, "", "do messageFloodCheck() mark flood if flood stop as FLOOD stop as OK")
	d, _ := s.Domain("default", "")
	sets, _ := corpus.Load(t)
	for name, data := range sets {
		good, hit, bad, hitBad := 0, 0, 0, 0
		for _, x := range data {
			o, err := s.Judge(context.Background(), d, map[string]any{"text": x.Text}, false)
			if err != nil {
				t.Fatal(err)
			}
			flood := o.Decision == "FLOOD"
			switch {
			case x.Bad:
				bad++
				if flood {
					hitBad++
				}
			default:
				good++
				if flood {
					hit++
					t.Logf("%s: %q is taken for flood", name, x.Text)
				}
			}
		}
		if hit*1000 > good+1000 {
			t.Errorf("%s: %d of %d good messages are taken for flood", name, hit, good)
		}
		t.Logf("%s: flood rule: %d of %d good, %d of %d bad messages", name, hit, good, hitBad, bad)
	}
}

// TestJudgeAllocations checks that judging allocates nothing but what a new entry in a table needs.
func TestJudgeAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s, _ := newSystem(t, DefaultConfig())
	setRules(t, s, "", `do lengthCheck(minLength=1) mark a
do messageFrequencyCheck(count=1000000) mark a
do userFrequencyCheck(count=1000000) mark a
do nearDuplicateCheck(count=1000000, minWords=3) mark a
do modelClassify() mark spam
if not a, spam stop as OK`)
	sets, _ := corpus.Load(t)
	d, _ := s.Domain("default", "")
	m, _ := d.Model("model")
	for _, x := range sets["sms"] {
		m.known.Load().learner.Train(x.Text, !x.Bad)
	}
	m.known.Load().learner.Fit()
	f, _ := d.Firewall("messageAnalyzer")
	kind, _ := d.messages()
	msg, err := kind.read(map[string]any{"text": "see you at the library tomorrow my friend", "from": int64(5)})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(500, func() {
		o, err := s.judge(context.Background(), d, f, msg, false)
		if err != nil || o.Decision != "OK" {
			t.Fatal(o, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
