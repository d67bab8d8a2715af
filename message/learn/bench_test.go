package learn

import (
	"testing"

	"antirobot/message/learn/corpus"
)

// BenchmarkModelSize learns each set and prints what the model takes, in memory and in the store.
func BenchmarkModelSize(b *testing.B) {
	sets, _ := corpus.Load(b)
	for name, data := range sets {
		b.Run(name, func(b *testing.B) {
			var m *bayes
			for b.Loop() {
				m = newBayes(1 << 20)
				for _, x := range data {
					m.Train(x.Text, !x.Bad)
				}
			}
			b.ReportMetric(float64(len(data))*float64(b.N)/b.Elapsed().Seconds(), "texts/s")
			b.ReportMetric(float64(m.Size().Features), "features")
			b.ReportMetric(float64(m.Size().Bytes)/1024, "KiB-memory")
			b.ReportMetric(float64(len(m.AppendState(nil)))/1024, "KiB-stored")
			b.ReportMetric(0, "ns/op")
		})
	}
}
