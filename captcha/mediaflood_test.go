package captcha

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/identity"
)

// TestPitfall12PeopleGetPicturesBesideAFlood: six networks request pictures of ever new keys as fast as they can; people in
// other networks still all get theirs.
func TestPitfall12PeopleGetPicturesBesideAFlood(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) {
		c.RenderConcurrency, c.RenderQueue, c.RenderWait = 1, 12, time.Minute // no person waits for as long as that
		c.Rates.Images = Rate{PerMinute: 1_000_000, Burst: 1_000_000}         // only the turns limit here
	})
	const networks, hands, people = 6, 4, 10
	var (
		flood            sync.WaitGroup
		over             atomic.Bool
		answered, busied atomic.Int64
		mu               sync.Mutex
	)
	request := func(address string) *Request {
		mu.Lock()
		defer mu.Unlock()
		key := e.c.issue(e.request("GET", "https://example.com/", from(address)), channelPage, addr(address), 0, "", e.now())
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
