// Package alarm watches the gateway's own state and raises alarms for operators.
//
// An alarm is reported when it begins, again while it lasts, and when it ends. A slow webhook delays nothing else.
package alarm

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

// Deps is what a Watch works with. Look and Metrics are required.
type Deps struct {
	Look    func(at time.Time) Sight // called by the watch alone, every Config.Every
	Node    string
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Watch looks, and tells. Safe for concurrent use; made by New.
type Watch struct {
	cfg   Config
	look  func(at time.Time) Sight
	node  string
	log   zerolog.Logger
	hooks []*hook

	shed    float64
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	alive map[string]*lasting
}

type lasting struct {
	Alarm
	told   time.Time
	absent int // times in a row that it was not seen
}

// enough is how many times in a row an alarm must be absent before it ends.
const enough = 3

// New makes a Watch of a valid configuration. It looks after Start.
func New(cfg Config, d Deps) (*Watch, error) {
	w := &Watch{cfg: cfg, look: d.Look, node: d.Node, log: d.Log, alive: map[string]*lasting{}}
	if w.node == "" {
		w.node, _ = os.Hostname()
	}
	for i := range cfg.Webhooks {
		h, err := newHook(&cfg, i, d)
		if err != nil {
			return nil, err
		}
		w.hooks = append(w.hooks, h)
	}
	for name := range kinds {
		d.Metrics.NewGauge(`antirobot_alarms{alarm="`+name+`"}`, func() float64 { return float64(w.count(name)) })
	}
	return w, nil
}

// Start looks now and at intervals, until Close.
func (w *Watch) Start() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for _, h := range w.hooks {
		w.running.Go(func() { h.run(ctx) })
	}
	w.running.Go(func() {
		tick := time.NewTicker(w.cfg.Every)
		defer tick.Stop()
		for {
			w.turn(time.Now())
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// Close stops the watch; pending messages are dropped.
func (w *Watch) Close() error {
	if w.stop != nil {
		w.stop()
	}
	w.running.Wait()
	for _, h := range w.hooks {
		h.client.CloseIdleConnections()
	}
	return nil
}

func (w *Watch) turn(at time.Time) {
	s := w.look(at)
	found := w.cfg.judge(&s, w.shed, at)
	w.shed = s.Shed
	for _, c := range w.change(found, at) {
		if c.State == stateOff {
			w.log.Info().Str("alarm", c.Name).Str("about", c.About).Msg("alarm is over")
		} else {
			w.log.Warn().Str("alarm", c.Name).Str("about", c.About).Str("do", c.Action).Msg("alarm: " + c.Alarm.Text)
		}
		for _, h := range w.hooks {
			h.offer(c)
		}
	}
}

// change compares the alarms found with the active ones, and returns the messages to send.
func (w *Watch) change(found []Alarm, at time.Time) (tell []message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	for _, a := range found {
		key := a.key()
		seen[key] = true
		l := w.alive[key]
		if l != nil {
			a.Since = l.Since
		}
		if l == nil || at.Sub(l.told) >= w.cfg.Repeat {
			l = &lasting{told: at}
			w.alive[key] = l
			tell = append(tell, w.message(a, stateOn, at))
		}
		l.Alarm, l.absent = a, 0
	}
	for key, l := range w.alive {
		if seen[key] {
			continue
		}
		if l.absent++; l.absent >= enough {
			delete(w.alive, key)
			tell = append(tell, w.message(l.Alarm, stateOff, at))
		}
	}
	return tell
}

// Active returns the alarms that last, the oldest first.
func (w *Watch) Active() []Alarm {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Alarm, 0, len(w.alive))
	for _, l := range w.alive {
		all = append(all, l.Alarm)
	}
	slices.SortFunc(all, func(a, b Alarm) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.key(), b.key()))
	})
	return all
}

func (w *Watch) count(name string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.alive {
		if l.Name == name {
			n++
		}
	}
	return n
}
