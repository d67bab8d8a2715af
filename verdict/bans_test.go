package verdict

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"antirobot/identity"
	"antirobot/verdict/bans"
	"antirobot/verdict/replicate"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		killedChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

func TestBanEndsExactly(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	w.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = w.now().Add(time.Second) })
	w.clock.advance(time.Second - 1)
	if w.ask(s, "192.0.2.1").Verdict != Robot {
		t.Error("over a nanosecond too early")
	}
	w.clock.advance(1)
	if w.ask(s, "192.0.2.1").Verdict != Human {
		t.Error("over too late")
	}
}

func TestBanIsRefused(t *testing.T) {
	w := newWorld(t)
	good := bans.Ban{Subject: ip("192.0.2.1"), Until: w.now().Add(time.Minute)}
	f := func(name string, edit func(*bans.Ban)) {
		t.Helper()
		b := good
		edit(&b)
		if err := w.Ban(ctx, b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	f("no subject", func(b *bans.Ban) { b.Subject = identity.Subject{} })
	f("in the past", func(b *bans.Ban) { b.Until = w.now() })
	f("score", func(b *bans.Ban) { b.Score = 1.1 })
	f("no score", func(b *bans.Ban) { b.Score = float32(math.NaN()) })
	f("threshold", func(b *bans.Ban) { b.Threshold = float32(math.NaN()) })
	f("factor", func(b *bans.Ban) { b.Factors[0] = bans.Factor{Name: "x", Value: float32(math.Inf(1))} })
	f("long reason", func(b *bans.Ban) { b.Reason = string(make([]byte, 513)) })
	f("long service", func(b *bans.Ban) { b.Service = string(make([]byte, 65)) })
	if n := len(w.Bans(BanFilter{})); n != 0 {
		t.Errorf("%d bans", n)
	}
}

// TestBansUnderConcurrency is for the race detector.
func TestBansUnderConcurrency(t *testing.T) {
	w := newWorld(t).start()
	done := make(chan struct{})
	for g := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			s := service(t)
			for i := range 300 {
				addr := fmt.Sprintf("192.0.2.%d", rand.IntN(8))
				switch (i + g) % 4 {
				case 0:
					_ = w.BanSoon(bans.Ban{Subject: ip(addr), Until: w.now().Add(time.Minute), Service: fmt.Sprint("s", i%5)})
				case 1:
					_, _ = w.Unban(ctx, ip(addr), "*")
				case 2:
					w.ask(s, addr)
				default:
					w.Bans(BanFilter{})
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	live, stored := len(w.Bans(BanFilter{})), 0
	_ = w.st.Memory.Scan(ctx, []byte(bans.Prefix), func(_, _ []byte, _ time.Duration) error { stored++; return nil })
	if live != stored {
		t.Errorf("%d bans in memory, %d in the store", live, stored)
	}
}

func FuzzHeardBan(f *testing.F) {
	b := bans.Ban{Subject: ip("192.0.2.1"), Until: day0.Add(time.Hour), Made: day0}
	c := replicate.Writer(nil, 0)
	b.Code(c)
	f.Add(replicate.Append(nil, recordBan, c.Bytes()))
	f.Add(replicate.Append(nil, recordScan, nil))
	w := newWorld(f)
	f.Fuzz(func(_ *testing.T, msg []byte) {
		_ = w.LiveBans.heard(msg)
		_ = w.Revocations.heard(msg)
	})
}
