package e2e

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"antirobot/store/redisstore/redistest"
)

const siteOverKafka = siteOfRobots + `
kafka: {brokers: [%q], session_timeout: 1s}
`

// TestEventsOverKafka lets a robot read through a gateway whose events travel over an imitation of brokers. The processor that has
// judged its first ten pages is killed: its neighbour stops the robot after as many pages as one that pauses for as long, without a kill.
func TestEventsOverKafka(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r, up, secret := redistest.Start(t), site(t).URL, secretFile(t)
	file := func(role string) string {
		return configFile(t, siteOverKafka, role, "redis://"+r.Addr, secret, up, c.ListenAddrs()[0])
	}
	g := start(t, "serve", "--config", file("gateway"))
	judges, files := make([]*gateway, 2), [...]string{file("processor"), file("processor")}
	var wg sync.WaitGroup
	for i := range judges {
		wg.Go(func() { judges[i] = processor(t, files[i]) })
	}
	wg.Wait()
	held := func(i int) float64 { return judges[i].metric("antirobot_stream_partitions ") }
	eventually(t, "the processors share the partitions", func() bool { return held(0) == 8 && held(1) == 8 })
	eventually(t, "the gateway hears of processors", func() bool { return g.metric("antirobot_stream_alone ") == 0 })
	judged := func(i int) float64 { return judges[i].metric("antirobot_stream_events_total ") }
	asks, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(asks.Close)
	noted := func() bool { // all that was published; what was not noted would be counted twice
		groups, err := kadm.NewClient(asks).Lag(t.Context(), "antirobot-processors")
		return err == nil && groups["antirobot-processors"].Lag.Total() == 0
	}
	const first = 10 // pages
	victim, robot := 0, robots(1)[0]
	var pause time.Duration
	got := robot.reads(t, g.url, func(i int) {
		time.Sleep(15 * time.Millisecond)
		if i != first {
			return
		}
		began := time.Now()
		eventually(t, "the first pages are judged", func() bool { return judged(0)+judged(1) >= first })
		eventually(t, "they are noted", noted)
		if judged(1) > 0 {
			victim = 1
		}
		heir, all := judges[1-victim], judged(0)+judged(1)
		judges[victim].kill(syscall.SIGKILL)
		took := eventually(t, "the other processor has all partitions", func() bool { return held(1-victim) == 16 })
		has := func() float64 { return judged(1-victim) + heir.metric("antirobot_stream_replayed_total ") }
		eventually(t, "it has read the first pages once more", func() bool { return has() >= all })
		if has() != all {
			t.Errorf("the neighbour has judged %.0f events, and there were %.0f", has(), all)
		}
		t.Logf("taken over within %v", took)
		pause = time.Since(began)
	})
	robot = robots(3)[0]
	want := robot.reads(t, g.url, func(i int) {
		time.Sleep(15 * time.Millisecond)
		if i == first {
			time.Sleep(pause) // a long stay on a page tells of a robot, too
		}
	})
	if want == mostPages {
		t.Fatal("a robot is not stopped")
	}
	if got < want-3 || got > want+3 { // some pages are under way while one is judged
		t.Errorf("stopped after %d pages because a processor was killed, want %d", got, want)
	}
	if n := g.metric("antirobot_stream_judged_alone_total"); n > 0 {
		t.Errorf("the gateway has judged %.0f events by itself", n)
	}
	saysHowTheStreamIs(t, g, judges[1-victim], c.Close)
	t.Logf("stopped after %d pages, and after %d with a processor killed, both with a pause of %v", want, got, pause)
}

// saysHowTheStreamIs looks at what a gateway and a processor say before and after the brokers are gone.
func saysHowTheStreamIs(t *testing.T, g, judge *gateway, gone func()) {
	t.Helper()
	asks := func(g *gateway, health, want string) {
		t.Helper()
		eventually(t, want, func() bool { status, _ := g.health(); return status == health })
		if said, err := g.command("status"); err != nil || !strings.Contains(said, "\nstream   "+want) {
			t.Errorf("status says %s, %v; want %s", said, err, want)
		}
	}
	asks(g, "ok", "gateway over kafka, processors judge its events")
	asks(judge, "ok", "processor over kafka, judges 16 partitions, ")
	gone()
	g.asks(visitor(t), "/articles/1", "203.0.99.1") // an event to publish
	asks(g, "degraded", "gateway over kafka: events can't be published: ")
	asks(judge, "degraded", "processor over kafka: the brokers can't be used now: ")
	g.kill(syscall.SIGKILL) // it would wait for the brokers with its last events
}
