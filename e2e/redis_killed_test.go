package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// TestKilledWhileTheStoreIsAway kills a gateway with SIGKILL seconds after bans were made, and starts it while the store is
// away: all bans that it made or heard hold, a lifted one does not, and a pass pays what it has left and no more.
func TestKilledWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]func(t *testing.T, r *redistest.Server){
		"the store is killed, too": func(_ *testing.T, r *redistest.Server) { r.Kill() },
		"the store hangs":          func(t *testing.T, r *redistest.Server) { r.Signal(t, syscall.SIGSTOP) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const bans, allowance, before = 300, 100, 37
			r := redistest.Start(t)
			all := fleet(t, 2, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")
			a, b := all[0], all[1]
			addr := func(i int) string { return fmt.Sprintf("203.0.%d.%d", i/250, i%250+1) }
			for i := range bans {
				all[i%2].ban("ip:"+addr(i), "1h")
			}
			b.ban("ip:100.64.0.1", "1h")
			eventually(t, "A hears all bans", func() bool { return a.metric("antirobot_bans ") == bans+1 })
			b.api("DELETE", "/api/bans?subject=ip:100.64.0.1", nil)
			eventually(t, "A hears that one is lifted", func() bool { return a.metric("antirobot_bans ") == bans })
			b.list("block", "192.0.2.0/24", "1h")
			eventually(t, "A hears of a list entry", func() bool { return a.asks(visitor(t), "/", "192.0.2.1") == 403 })
			v := visitor(t)
			v.header.Set("X-Forwarded-For", addr(0))
			a.solve(v, "/")
			pass := v.pass(t, a.url)
			pay := func() bool {
				return visitor(t).get(a.url+"/x", "X-Forwarded-For", addr(0), "Cookie", "spravka="+pass).StatusCode == 200
			}
			paid := 0
			for range before {
				if pay() {
					paid++
				}
			}
			// The answer to the next request leaves after the last payment is on its way to the disk.
			eventually(t, "metrics after the last payment", func() bool { return a.metric("antirobot_allowance_spent_total") >= float64(paid) })

			a.kill(syscall.SIGKILL)
			away(t, r)
			a.run()
			held := 0
			for i := range bans {
				if a.asks(visitor(t), "/", addr(i)) == 302 {
					held++
				}
			}
			if held != bans {
				t.Errorf("%d of %d bans hold", held, bans)
			}
			if s := a.asks(visitor(t), "/", "100.64.0.1"); s != 200 {
				t.Errorf("the lifted ban is back: %d", s)
			}
			if s := a.asks(visitor(t), "/", "192.0.2.1"); s != 403 {
				t.Errorf("the list entry is forgotten: %d", s)
			}
			for range allowance {
				if pay() {
					paid++
				}
			}
			if paid != allowance {
				t.Errorf("the pass of %d paid for %d requests", allowance, paid)
			}
		})
	}
}

// TestOneAnswerWhileTheStoreIsAway: while the store is away, a right answer earns a pass at the gateway that asked, once, and at
// no other one: there its sender sees a fresh picture, without being told that the answer was wrong, and can answer that.
func TestOneAnswerWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	all := fleet(t, 3, "redis://"+r.Addr)
	all[0].ban("ip:127.0.0.1", "1h")
	for _, g := range all {
		eventually(t, "the ban", func() bool { return visitor(t).get(g.url+"/").StatusCode == 302 })
	}
	answer := func(v *client, page *response, at *gateway) *response {
		form := formOf(t, page.body)
		form.Set("rep", testAnswer)
		return v.do("POST", at.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	}
	v := visitor(t)
	earned := func(a *response) bool { return strings.Contains(strings.Join(a.Header["Set-Cookie"], ";"), "spravka=") }
	const wrong = "did not match"
	page := v.get(v.get(all[0].url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, `name="rep"`)
	r.Kill()
	for _, g := range all[1:] {
		a := answer(v, page, g)
		if earned(a) {
			t.Fatal("another gateway gives a pass for the answer")
		}
		fresh := v.get(a.must(t, 303, "").Header.Get("Location")).must(t, 200, `name="rep"`)
		if strings.Contains(fresh.body, wrong) {
			t.Errorf("another gateway says that a right answer is wrong:\n%s", fresh.body)
		}
		if !earned(answer(v, fresh, g)) {
			t.Error("the answer to the fresh picture earns nothing")
		}
	}
	if !earned(answer(v, page, all[0])) {
		t.Error("the gateway that asked gives no pass for the right answer")
	}
	if earned(answer(v, page, all[0])) {
		t.Error("it gives a second pass for it")
	}
}
