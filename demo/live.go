package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// tick is what both streams send once a second.
type tick struct {
	N    int    `json:"n"`
	Time string `json:"time"` // RFC 3339, UTC
}

// clock is a WebSocket that sends the time once a second and echoes its input.
func (s *site) clock(w http.ResponseWriter, r *http.Request) {
	if !s.streams.enter() {
		busy(w)
		return
	}
	s.running.Add(1)
	defer s.running.Done()
	defer s.streams.leave()
	// The gateway may put the host that the browser asked for into a separate header.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: r.Header.Values("X-Forwarded-Host")})
	if err != nil {
		return // Accept has answered
	}
	c.SetReadLimit(1 << 10)

	// The reader has its own context: one that ends in the middle of a read drops the connection without a close frame.
	reading, stopReading := context.WithCancel(context.WithoutCancel(r.Context()))
	ctx, cancel := context.WithCancel(r.Context())
	echo := make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		for {
			_, b, err := c.Read(reading)
			if err != nil {
				return
			}
			select {
			case echo <- string(b):
			case <-ctx.Done(): // what comes now is read on for the close frame
			}
		}
	}()
	err = s.ticks(ctx, echo, func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		late, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		return c.Write(late, websocket.MessageText, b)
	})
	if err == nil && r.Context().Err() != nil {
		_ = c.Close(websocket.StatusGoingAway, "the site stops")
	}
	cancel()
	stopReading()
	_ = c.CloseNow()
	<-ended
}

// events is a stream of server-sent events, one a second. It continues from the last number that the browser saw.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	if !s.streams.enter() {
		busy(w)
		return
	}
	s.running.Add(1)
	defer s.running.Done()
	defer s.streams.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	last = max(0, min(last, 1<<30))
	if _, err := fmt.Fprint(w, "retry: 2000\n\n"); err != nil {
		return
	}
	_ = s.ticks(r.Context(), nil, func(v any) error {
		t := v.(tick)
		t.N += last
		b, err := json.Marshal(t)
		if err != nil {
			return err
		}
		_ = out.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", t.N, b); err != nil {
			return err
		}
		return out.Flush()
	})
}

// ticks calls send at once and then every second, and with everything from echo, until ctx ends or send fails.
func (s *site) ticks(ctx context.Context, echo <-chan string, send func(any) error) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for n := 1; ; n++ {
		if err := send(tick{n, s.now().UTC().Format(time.RFC3339)}); err != nil {
			return err
		}
	wait:
		for {
			select {
			case <-ctx.Done():
				return nil
			case words := <-echo:
				if err := send(map[string]string{"echo": words}); err != nil {
					return err
				}
			case <-every.C:
				break wait
			}
		}
	}
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too many at once; try again in a few seconds", http.StatusServiceUnavailable)
}
