package queue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"antirobot/spravka"
	"antirobot/store"
)

// State is the state of a message.
type State string

// The states. After Delivered and Refused only a record is left.
const (
	Waiting   State = "waiting"
	Approved  State = "approved" // being delivered, or to be retried
	Failed    State = "failed"   // approved, but not delivered
	Delivered State = "delivered"
	Refused   State = "refused"
)

// Item is a message of the queue. Its strings may be hostile.
type Item struct {
	ID        string         `json:"id"`
	State     State          `json:"state"`
	At        time.Time      `json:"at"`
	Until     time.Time      `json:"until"`
	Service   string         `json:"service"`
	Route     string         `json:"route"`
	Partner   string         `json:"partner"`
	Domain    string         `json:"domain"`
	RequestID string         `json:"request_id"` // shown to the sender
	Message   map[string]any `json:"message,omitempty"`

	Decision string   `json:"decision,omitempty"` // of the rules
	Rule     string   `json:"rule,omitempty"`     // that decided, or why there is no decision
	Tags     []string `json:"tags,omitempty"`
	Score    *float64 `json:"score,omitempty"`
	Opinions []string `json:"opinions,omitempty"`

	Client  string `json:"client,omitempty"`
	Subject string `json:"subject,omitempty"`
	Method  string `json:"method"`
	Host    string `json:"host"`
	Proto   string `json:"proto"`
	Target  string `json:"target"`
	Type    string `json:"content_type,omitempty"`
	Bytes   int    `json:"bytes"`
	Webhook string `json:"webhook,omitempty"` // for approved messages; empty: the service

	Decided  time.Time `json:"decided,omitzero"`
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	Status   int       `json:"status,omitempty"`
	Location string    `json:"location,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Field is a header field of a request.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Request is the request of a message, with its body as it was sent.
type Request struct {
	Fields []Field `json:"fields"`
	Body   []byte  `json:"body"`
}

func (r *Request) size() (n int64) {
	n = int64(len(r.Body))
	for _, f := range r.Fields {
		n += int64(len(f.Name) + len(f.Value))
	}
	return n
}

// Errors that callers tell apart.
var (
	// ErrFull is returned by Hold if the queue or the network's share is full, or the request is too large.
	ErrFull = errors.New("the queue is full")
	// ErrNotFound is returned for an unknown ID.
	ErrNotFound = errors.New("the queue has no such message")
	// ErrState is returned for an action that is impossible in an item's state.
	ErrState = errors.New("not in this state")
)

// Keys in the store: heads with the message, requests, marks for deliveries, and final records.
const (
	headPrefix = "queue/head/"
	bodyPrefix = "queue/body/"
	duePrefix  = "queue/due/"
	donePrefix = "queue/done/"
	countKey   = "queue/count"
	fromPrefix = "queue/from/"
)

const maxSealed = 4 << 20

func (q *Queue) seal(key string, v any, until time.Time) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if len(plain) > maxSealed {
		return nil, fmt.Errorf("%w: the message is too large", ErrFull)
	}
	return q.deps.Keys.Ring().SealSecret(nil, spravka.PurposeQueue, []byte(key), plain, until), nil
}

func (q *Queue) open(key string, sealed []byte, v any) error {
	plain, err := q.deps.Keys.Ring().OpenSecret(nil, spravka.PurposeQueue, []byte(key), sealed, q.now())
	if err != nil {
		return fmt.Errorf("queue: open %s: %w", key, err)
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber() // numbers may have more digits than a float
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("queue: open %s: %w", key, err)
	}
	return nil
}

// get opens a value of the store. Error: ErrNotFound.
func (q *Queue) get(ctx context.Context, key string, v any) (raw []byte, err error) {
	raw, err = q.deps.Store.Get(ctx, nil, []byte(key))
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return raw, q.open(key, raw, v)
}

// put seals a value and stores it.
func (q *Queue) put(ctx context.Context, key string, v any, until time.Time, keep time.Duration) error {
	sealed, err := q.seal(key, v, until)
	if err != nil {
		return err
	}
	if err := q.deps.Store.Put(ctx, []byte(key), sealed, keep); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}

func (q *Queue) head(ctx context.Context, id string) (it *Item, raw []byte, err error) {
	it = new(Item)
	raw, err = q.get(ctx, headPrefix+id, it)
	return it, raw, err
}

func (q *Queue) swap(ctx context.Context, it *Item, raw []byte) (bool, error) {
	key := headPrefix + it.ID
	next, err := q.seal(key, it, it.Until)
	if err != nil {
		return false, err
	}
	ok, err := q.deps.Store.Swap(ctx, []byte(key), raw, next, max(it.Until.Sub(q.now()), time.Millisecond))
	if err != nil {
		return false, fmt.Errorf("queue: %w", err)
	}
	return ok, nil
}

// Get returns a message or the record of one.
func (q *Queue) Get(ctx context.Context, id string) (*Item, error) {
	it, _, err := q.head(ctx, id)
	if errors.Is(err, ErrNotFound) {
		_, err = q.get(ctx, donePrefix+id, it)
	}
	if err != nil {
		return nil, err
	}
	return it, nil
}

// Request returns the request of a message.
func (q *Queue) Request(ctx context.Context, id string) (*Request, error) {
	r := new(Request)
	_, err := q.get(ctx, bodyPrefix+id, r)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Filter selects messages. Empty fields match everything.
type Filter struct {
	State   State
	Service string
	Sender  string
}

func (f *Filter) fits(it *Item) bool {
	return (f.State == "" || f.State == it.State) && (f.Service == "" || f.Service == it.Service) &&
		(f.Sender == "" || f.Sender == it.Client || f.Sender == it.Subject || f.Sender == "ip:"+it.Client)
}

// List returns matching messages and records, the oldest first.
func (q *Queue) List(ctx context.Context, f Filter) ([]*Item, error) {
	var out []*Item
	for _, prefix := range [...]string{headPrefix, donePrefix} {
		err := q.deps.Store.Scan(ctx, []byte(prefix), func(k, v []byte, _ time.Duration) error {
			it := new(Item)
			if err := q.open(string(k), v, it); err != nil {
				q.deps.Log.Error().Err(err).Msg("a queued message is unreadable")
				return nil
			}
			if f.fits(it) {
				out = append(out, it)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
	}
	slices.SortFunc(out, func(a, b *Item) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	return out, nil
}
