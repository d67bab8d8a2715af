package rpc

import (
	"context"
	"encoding/json"
	"testing"

	"antirobot/message"
	"antirobot/message/learn/corpus"
)

// BenchmarkServe is a whole request of the API, decoded and answered.
func BenchmarkServe(b *testing.B) {
	sets, _ := corpus.Load(b)
	data := corpus.Smoke(sets["sms"])
	for name, codec := range map[string]Codec{"json": JSON, "xml": XML} {
		b.Run(name, func(b *testing.B) {
			s, _ := newSystem(b, message.DefaultConfig())
			d, err := s.Domain("default", "")
			if err != nil {
				b.Fatal(err)
			}
			m, err := d.Model("model")
			if err != nil {
				b.Fatal(err)
			}
			for _, x := range data {
				if err := s.Train(b.Context(), m, x.Text, !x.Bad); err != nil {
					b.Fatal(err)
				}
			}
			setRules(b, s, "", corpus.ExampleRules)
			bodies := make([][]byte, len(data))
			for i, x := range data {
				params := map[string]any{"partner": nil, "message": map[string]any{"text": x.Text, "from": int64(i)}}
				if codec == XML {
					bodies[i] = append(appendXML([]byte("<methodCall><methodName>sf.message.input</methodName><params><param>"), params), "</param></params></methodCall>"...)
				} else {
					bodies[i], _ = json.Marshal(map[string]any{"method": "sf.message.input", "id": i, "params": []any{params}})
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				s.Serve(context.Background(), codec, bodies[i%len(bodies)], Auth{})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
