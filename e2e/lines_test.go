package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPitfall12FloodFillsNoLog: a robot that never stops writes a bounded number of lines, and the next one says how many
// were omitted.
func TestPitfall12FloodFillsNoLog(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
log: {access_lines: 50}
defaults:
  upstream: {urls: [%q]}
`, site(t).URL))
	g.ban("ip:127.0.0.1", "1h")
	v := visitor(t)
	began := time.Now()
	const many = 300
	for range many {
		if r := v.get(g.url + "/"); r.StatusCode != http.StatusFound {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	// One more line of each kind a second: ask until the next of both is there.
	next := func(kind string) string {
		return g.logs.find(func(line string) bool {
			return strings.Contains(line, `"message":"`+kind+`"`) && strings.Contains(line, `"left_out":`)
		})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if r, err := v.Get(g.url + "/"); err == nil {
					_ = r.Body.Close()
				}
			}
		}
	}()
	for _, kind := range []string{"decision", "request"} {
		if next(kind) == "" {
			t.Errorf("no line says how many %s lines were left out", kind)
		}
	}
	close(stop)
	<-stopped
	seconds := int(time.Since(began)/time.Second) + 1
	text := g.logs.String()
	if n := strings.Count(text, `"message":"decision"`); n > 120+seconds {
		t.Errorf("%d decision lines in %d s", n, seconds)
	}
	if n := strings.Count(text, `"message":"request"`); n > 50*(seconds+1) {
		t.Errorf("%d access lines in %d s", n, seconds)
	}
	for kind, written := range map[string]int{"decision": 120 + seconds, "access": 50 * (seconds + 1)} {
		if n := g.metric("antirobot_log_lines_left_out_total", kind); int(n) < many-written {
			t.Errorf("%v %s lines are counted as left out", n, kind)
		}
	}
}
