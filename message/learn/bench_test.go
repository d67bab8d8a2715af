package learn

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"antirobot/message/learn/corpus"
)

// BenchmarkModelSize learns each set and prints what the model takes, in memory and in the store.
func BenchmarkModelSize(b *testing.B) {
	sets, _ := corpus.Load(b)
	for name, data := range sets {
		data = corpus.Smoke(data)
		b.Run(name, func(b *testing.B) {
			var m *bayes
			before := cpuTime(b)
			for b.Loop() {
				m = newBayes(1 << 20)
				for _, x := range data {
					m.Train(x.Text, !x.Bad)
				}
			}
			b.ReportMetric(float64(len(data))*float64(b.N)/(cpuTime(b)-before).Seconds(), "texts/cpu-s")
			b.ReportMetric(float64(m.Size().Features), "features")
			b.ReportMetric(float64(len(m.AppendState(nil)))/1024, "KiB-stored")
			b.ReportMetric(0, "ns/op")
		})
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
