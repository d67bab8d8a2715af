package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/store"
	"antirobot/verdict/counter"
)

// Another system counts something through the gateway's API, and asks how often it was met. A real one begins where
// post is defined; the listener before it stands for the gateway.
func Example_counters() {
	counts, err := counter.New(counter.DefaultConfig(), counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop()})
	if err != nil {
		log.Fatal(err)
	}
	const token = "0123456789abcdef0123456789abcdef"
	srv, err := admin.New(admin.DefaultConfig(), admin.Deps{Token: token, Counters: counts, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	post := func(path string, call, answer any) error {
		body, err := json.Marshal(call)
		if err != nil {
			return err
		}
		req, err := http.NewRequest(http.MethodPost, "http://"+ln.Addr().String()+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", path, res.Status)
		}
		return json.NewDecoder(res.Body).Decode(answer)
	}

	// Three messages with one subject, from two senders.
	type item map[string]any
	var updates, uniques []item
	for _, from := range []string{"bob@example.org", "eve@example.org", "Bob <bob@example.org>"} {
		updates = append(updates, item{"type": counter.TypeSubject, "text": "Cheap pills, 50 % off"})
		const subject = "cheap pills 0 off"
		sender, err := counter.Shingles(nil, []counter.Piece{{Type: counter.TypeFrom, Text: from}})
		if err != nil {
			log.Fatal(err)
		}
		uniques = append(uniques, item{
			"type": counter.TypeUnique, "text": subject,
			"pair": item{"type": counter.TypePair, "text": fmt.Sprintf("%016x %s", sender[0].Hash, subject)},
		})
	}
	var updated struct{ Updated int }
	if err := post("/api/counters/update", item{"prefix": "mass_in", "updates": updates, "uniques": uniques}, &updated); err != nil {
		log.Fatal(err)
	}
	var read struct{ Counts []uint64 }
	err = post("/api/counters/read", item{"prefix": "mass_in", "queries": []item{
		{"type": counter.TypeSubject, "text": "cheap PILLS 70 off", "unit": "1d", "last": 2},
		{"type": counter.TypeUnique, "text": "cheap pills 0 off", "unit": "1d", "last": 2},
	}}, &read)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(updated.Updated, "updates; met", read.Counts[0], "times, from", read.Counts[1], "senders")

	http.DefaultClient.CloseIdleConnections()
	if err := srv.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	if err := counts.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: 6 updates; met 3 times, from 2 senders
}
