package captcha

import (
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/captcha/media"
)

// TestPitfall12PeopleGetPicturesBesideAFlood: six networks request pictures of ever new keys as fast as they can;
// people in other networks still all get theirs.
func TestPitfall12PeopleGetPicturesBesideAFlood(t *testing.T) {
	e := newEnv(t, nil, onePlace, func(b *bounds) {
		b.queue, b.wait = 12, time.Minute     // no person waits for as long as that
		b.images = rate{1_000_000, 1_000_000} // only the turns limit here
	})
	const networks, hands = 6, 4
	people := 10
	if raceEnabled { // a picture takes ten times as long
		people = 3
	}
	var (
		flood            sync.WaitGroup
		over             atomic.Bool
		answered, busied atomic.Int64
		mu               sync.Mutex
	)
	request := func(address string) *Request {
		mu.Lock()
		defer mu.Unlock()
		key := e.c.issuer.issue(e.request("GET", "https://example.com/", from(address)), channelPage, addr(address), 0,
			"", e.now())
		return e.request("GET", "https://example.com/captcha/image?key="+key, from(address))
	}
	for n := range networks * hands {
		address := fmt.Sprintf("198.51.%d.%d", n%networks, 1+n)
		flood.Go(func() {
			for !over.Load() {
				switch e.c.Image(request(address)).Status {
				case 200:
					answered.Add(1)
				case 503:
					busied.Add(1)
					time.Sleep(time.Millisecond)
				default:
					t.Error("the flood is refused for another reason")
					return
				}
			}
		})
	}
	for busied.Load() == 0 && !t.Failed() { // until the queue is full
		time.Sleep(time.Millisecond)
	}
	for i := range people {
		if status := e.c.Image(request(fmt.Sprintf("203.0.%d.9", i))).Status; status != 200 {
			t.Errorf("person %d: status %d", i, status)
		}
	}
	over.Store(true)
	flood.Wait()
	t.Logf("meanwhile the flood got %d pictures and was refused %d times", answered.Load(), busied.Load())
}

// TestPitfall12NetworksLeaveEverybodyAPicture: each of many networks asks for a picture of a key that it has got
// before, more than may wait. People who come then get theirs at once, several of them the same one, and are right
// with it. Afterwards each challenge has digits of its own again.
func TestPitfall12NetworksLeaveEverybodyAPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { leaveEverybody(t, media.Picture) })
}

// TestPitfall12NetworksLeaveEverybodyASound: so it is with sounds.
func TestPitfall12NetworksLeaveEverybodyASound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { leaveEverybody(t, media.Sound) })
}

func leaveEverybody(t *testing.T, m media.Medium) {
	t.Helper()
	robots, queue, ordinary, people := 60, 40, 10, 50
	if raceEnabled { // a picture takes ten times as long
		robots, queue, ordinary, people = 12, 8, 4, 6
	}
	e := newEnv(t, nil, onePlace, func(b *bounds) { b.queue, b.wait = queue, time.Minute })
	handler := e.c.Image
	if m == media.Sound {
		handler = e.c.Audio
	}
	showing := func(fields url.Values, address string) *Request {
		return e.request("GET", "https://example.com/captcha/"+m.String()+"?key="+fields.Get("key"), from(address))
	}
	var asked []*Request
	for i := range robots {
		address := fmt.Sprintf("198.51.%d.9", i)
		_, fields := e.visit("https://example.com/", from(address))
		asked = append(asked, showing(fields, address))
	}
	day := func(second, n int) (different int) {
		t.Helper()
		shown := map[string]bool{}
		for i := range n {
			address := fmt.Sprintf("%d.%d.7.9", 20+i, second) // all strangers to each other
			_, fields := e.visit("https://example.com/page", from(address))
			a := handler(showing(fields, address))
			e.pass(8 * time.Second) // to read it
			right := e.answerOf(fields.Get("key"))
			if done := e.submit(fields, right, from(address)); a.Status != 200 || len(a.Body) == 0 ||
				done.Outcome != OutcomeSolved {
				t.Errorf("person %d gets it with status %d, and an answer with %d", i, a.Status, done.Status)
			}
			shown[right] = true
		}
		return len(shown)
	}
	if n := day(1, ordinary); n != ordinary {
		t.Errorf("%d people get %d different ones though nobody waits", ordinary, n)
	}

	leave := e.occupy() // whatever is made now does not end
	var flood sync.WaitGroup
	var refused atomic.Int64
	for _, q := range asked {
		flood.Go(func() {
			if handler(q).Status == 503 {
				refused.Add(1)
			}
		})
	}
	synctest.Wait()
	if n := day(2, people); n > ordinary {
		t.Errorf("%d people get %d different ones, and %d were there", people, n, ordinary)
	}
	leave()
	flood.Wait()
	time.Sleep(time.Minute) // some seconds would do
	if n := day(3, people); refused.Load() != int64(robots-queue) || n != people {
		t.Errorf("%d of the flood were refused; afterwards %d people get %d different ones", refused.Load(), people, n)
	}
}
