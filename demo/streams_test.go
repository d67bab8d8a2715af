package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestWebSocket(t *testing.T) {
	addr, stop := running(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/live/clock", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://" + addr}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	read := func() (m map[string]any) {
		t.Helper()
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := read()
	if _, err := time.Parse(time.RFC3339, fmt.Sprint(first["time"])); err != nil || first["n"] != 1.0 {
		t.Errorf("first tick %v", first)
	}
	if err := c.Write(ctx, websocket.MessageText, []byte(`say "это"`)); err != nil {
		t.Fatal(err)
	}
	heard := false
	for n := 0; n < 3; n++ {
		if m := read(); m["echo"] == `say "это"` {
			heard = true
			break
		}
	}
	if !heard {
		t.Error("no echo")
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, _, err := c.Read(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	stop()
	if err := <-ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the socket ended with %v", err)
	}
}

func TestWebSocketRefusesForeignPages(t *testing.T) {
	addr, _ := running(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, resp, err := websocket.Dial(ctx, "ws://"+addr+"/live/clock", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://evil.example"}}})
	if err == nil || resp.StatusCode != 403 {
		t.Errorf("a foreign page may listen: %v", err)
	}
	// The gateway's public name differs from the upstream's.
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/live/clock", &websocket.DialOptions{HTTPHeader: http.Header{
		"Origin": {"http://shop.example"}, "X-Forwarded-Host": {"shop.example"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.CloseNow()
}

func TestEventStream(t *testing.T) {
	addr, stop := running(t, Options{})
	req, _ := http.NewRequest("GET", "http://"+addr+"/live/events", nil)
	req.Header.Set("Last-Event-ID", "41")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", resp.Header)
	}
	in := bufio.NewScanner(resp.Body)
	var ids []string
	for len(ids) < 2 && in.Scan() {
		if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
			ids = append(ids, id)
		}
	}
	if fmt.Sprint(ids) != "[42 43]" {
		t.Errorf("ids %v", ids)
	}
	stop() // ends the stream
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s := newSite(Options{})
	for range maxStreams {
		s.streams.enter()
	}
	for _, path := range []string{"/live/clock", "/live/events"} {
		if w := get(t, s, path); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
