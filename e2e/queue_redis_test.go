package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// TestRedisQueue: what one gateway holds waits in a shared Redis, where another finds it, nobody can read it, and it is
// delivered once, however many people say yes at once.
func TestRedisQueue(t *testing.T) {
	t.Parallel()
	service := &moderated{say: 200}
	site := httptest.NewServer(service)
	t.Cleanup(site.Close)
	r := redistest.Start(t)
	file, secret := configFile(t, queueConfig, site.URL, "http://127.0.0.1:1/approved", "http://127.0.0.1:1/judge"), secretFile(t)
	var all [2]*gateway
	for i := range all {
		all[i] = start(t, "serve", "--config", file, "--store", "redis://"+r.Addr, "--secret-file", secret)
	}
	a, b := all[0], all[1]
	visitor(t).do("POST", a.url+"/comments", "words=maybe+a+lighthouse", "Content-Type", form).must(t, 202, "")
	visitor(t).do("POST", b.url+"/comments", "words=maybe+a+lighthouse", "Content-Type", form).must(t, 202, "") // it waits once

	_, list := command(t, "queue", "list", "--admin", b.admin, "--data-dir", b.dir)
	id, _, _ := strings.Cut(list, " ")
	if strings.Count(list, "maybe a lighthouse") != 1 {
		t.Fatalf("the queue of the other gateway: %s", list)
	}
	held := strings.Fields(r.CLI(t, "KEYS", "*kqueue/*"))
	for _, key := range held {
		if kept := r.CLI(t, "GET", key); len(kept) < 32 || strings.Contains(kept, "lighthouse") {
			t.Errorf("%s holds %q", key, kept)
		}
	}
	if len(held) != 2 {
		t.Errorf("the store keeps %q of one message", held)
	}
	var both sync.WaitGroup
	for i := range 6 {
		both.Go(func() {
			g := all[i%2]
			command(t, "queue", "approve", id, "--admin", g.admin, "--data-dir", g.dir)
		})
	}
	both.Wait()
	service.mu.Lock()
	defer service.mu.Unlock()
	if len(service.was) != 1 || service.was[0] != "words=maybe+a+lighthouse" || service.got[0].Method != http.MethodPost {
		t.Errorf("delivered: %q", service.was)
	}
	if _, list := command(t, "queue", "list", "--admin", a.admin, "--data-dir", a.dir); strings.Contains(list, "lighthouse") || !strings.Contains(list, id) {
		t.Errorf("what is left of it: %s", list)
	}
}
