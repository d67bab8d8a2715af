package alarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

const (
	stateOn   = "on"
	stateOff  = "off"
	stateTest = "test"
)

// message is the body of a webhook call. Slack and its kin show Text alone.
type message struct {
	Text  string    `json:"text"`
	State string    `json:"state"`
	Node  string    `json:"node"`
	At    time.Time `json:"at"`
	Alarm `json:"alarm"`
}

func (w *Watch) message(a Alarm, state string, at time.Time) message {
	m := message{State: state, Node: w.node, At: at.UTC(), Alarm: a}
	m.Since = m.Since.UTC()
	switch state {
	case stateOff:
		m.Text = fmt.Sprintf("Antirobot on %s: it is over: %s", w.node, a.Text)
	case stateTest:
		m.Text = fmt.Sprintf("Antirobot on %s: this is a test; alarms arrive here", w.node)
	default:
		m.Text = fmt.Sprintf("Antirobot on %s: %s. What to do: %s", w.node, a.Text, a.Action)
	}
	return m
}

type hook struct {
	host, address string
	slack         bool
	log           zerolog.Logger
	client        *http.Client
	waiting       chan message

	sent, failed *metrics.Counter

	mu   sync.Mutex
	last string // why the last try failed; empty: it did not
}

const (
	maxWaiting   = 64 // further ones are dropped, and counted as failed
	timeout      = 10 * time.Second
	attempts     = 6
	longestPause = 5 * time.Minute // between two attempts
)

func newHook(cfg *Config, i int, d Deps) (*hook, error) {
	c := &cfg.Webhooks[i]
	address, err := c.Address()
	if err != nil {
		return nil, fmt.Errorf("webhooks[%d].%w", i, err)
	}
	return &hook{
		host: host(address), address: address, slack: c.Format == formatSlack, log: d.Log,
		waiting: make(chan message, maxWaiting),
		client: &http.Client{
			Transport:     &http.Transport{Proxy: nil, IdleConnTimeout: 30 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sent:   d.Metrics.GetOrCreateCounter(`antirobot_alarm_messages_total{result="sent"}`),
		failed: d.Metrics.GetOrCreateCounter(`antirobot_alarm_messages_total{result="failed"}`),
	}, nil
}

func (h *hook) offer(m message) {
	select {
	case h.waiting <- m:
	default:
		h.failed.Inc()
	}
}

func (h *hook) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-h.waiting:
			h.deliver(ctx, &m)
		}
	}
}

// deliver retries until it succeeds, cannot succeed, or runs out of attempts.
func (h *hook) deliver(ctx context.Context, m *message) {
	pause := time.Second
	for i := 1; ; i++ {
		again, err := h.post(ctx, m)
		if err == nil {
			return
		}
		if !again || i >= attempts {
			h.failed.Inc()
			h.log.Error().Err(err).Str("webhook", h.host).Str("alarm", m.Name).Int("attempts", i).
				Msg("an alarm could not be sent")
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
}

// post tries once; again says whether another try could help.
func (h *hook) post(ctx context.Context, m *message) (again bool, err error) {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.last = ""
		if err != nil {
			h.last = err.Error()
		}
	}()
	var body any = m
	if h.slack {
		body = struct {
			Text string `json:"text"`
		}{m.Text}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.address, bytes.NewReader(text))
	if err != nil {
		return false, errors.New("the address of the webhook is no URL") // which is a secret
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "antirobot")
	res, err := h.client.Do(req)
	if err != nil {
		return true, fmt.Errorf("%s does not answer: %w", h.host, errors.Unwrap(err)) // without the address
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode/100 == 2 {
		h.sent.Inc()
		return false, nil
	}
	again = res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests ||
		res.StatusCode == http.StatusRequestTimeout
	return again, fmt.Errorf("%s answers %d", h.host, res.StatusCode)
}

// HookState is how a webhook is.
type HookState struct {
	Host  string `json:"host"` // without the secret part
	Error string `json:"error,omitempty"`
}

// Hooks says how the webhooks are.
func (w *Watch) Hooks() []HookState {
	all := make([]HookState, 0, len(w.hooks))
	for _, h := range w.hooks {
		h.mu.Lock()
		all = append(all, HookState{Host: h.host, Error: h.last})
		h.mu.Unlock()
	}
	return all
}

// Test sends a test message to all webhooks at once, and returns their state.
func (w *Watch) Test(ctx context.Context, at time.Time) []HookState {
	m := w.message(Alarm{Name: "test", Text: "this is a test", Action: "nothing", Since: at}, stateTest, at)
	var all sync.WaitGroup
	for _, h := range w.hooks {
		all.Go(func() { _, _ = h.post(ctx, &m) })
	}
	all.Wait()
	return w.Hooks()
}
