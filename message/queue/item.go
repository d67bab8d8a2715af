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

// State is what becomes of a message.
type State string

// The states. Delivered and Refused are the ends: only a record is left.
const (
	Waiting   State = "waiting"   // for a person
	Approved  State = "approved"  // it is being delivered, or will be tried again
	Failed    State = "failed"    // approved, but not delivered: a person has to look
	Delivered State = "delivered" // the service took it
	Refused   State = "refused"
)

// Item is a message of the queue. All strings that come from its sender may be hostile.
type Item struct {
	ID        string         `json:"id"`
	State     State          `json:"state"`
	At        time.Time      `json:"at"`
	Until     time.Time      `json:"until"` // then it is erased
	Service   string         `json:"service"`
	Route     string         `json:"route"`
	Partner   string         `json:"partner"`
	Domain    string         `json:"domain"`
	RequestID string         `json:"request_id"` // the one that its sender was told
	Message   map[string]any `json:"message,omitempty"`

	Decision string   `json:"decision,omitempty"` // of the rules
	Rule     string   `json:"rule,omitempty"`     // that decided, or why there is no decision
	Tags     []string `json:"tags,omitempty"`
	Score    *float64 `json:"score,omitempty"` // of the model; nil: none was asked
	Opinions []string `json:"opinions,omitempty"`

	Client  string `json:"client,omitempty"` // its address
	Subject string `json:"subject,omitempty"`
	Method  string `json:"method"`
	Host    string `json:"host"`
	Proto   string `json:"proto"` // http or https
	Target  string `json:"target"`
	Type    string `json:"content_type,omitempty"`
	Bytes   int    `json:"bytes"`             // of the body
	Webhook string `json:"webhook,omitempty"` // where it goes when it is approved; empty: to the service

	Decided  time.Time `json:"decided,omitzero"`
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"`      // when it is tried again
	Status   int       `json:"status,omitempty"`   // of the last answer
	Location string    `json:"location,omitempty"` // of the last answer
	Error    string    `json:"error,omitempty"`    // of the last attempt
}

// Field is a header field of a request.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Request is the request that a message came in: its fields, and its body as it was sent.
type Request struct {
	Fields []Field `json:"fields"`
	Body   []byte  `json:"body"`
}

// size is what a request counts with.
func (r *Request) size() (n int64) {
	n = int64(len(r.Body))
	for _, f := range r.Fields {
		n += int64(len(f.Name) + len(f.Value))
	}
	return n
}

// Errors that a caller must be able to tell apart.
var (
	// ErrFull is returned by Hold: the queue, or what one network may add, is full, or the request is too large.
	ErrFull = errors.New("the queue is full")
	// ErrNotFound is returned for an ID that is not in the queue.
	ErrNotFound = errors.New("the queue has no such message")
	// ErrState is returned for what can't be done in an item's state.
	ErrState = errors.New("not in this state")
)

// Keys in the store: a head with the message, the request that it came in, a mark for what is to be delivered, and the
// record that is left in the end.
const (
	headPrefix = "queue/head/"
	bodyPrefix = "queue/body/"
	duePrefix  = "queue/due/"
	donePrefix = "queue/done/"
	countKey   = "queue/count"
	fromPrefix = "queue/from/"
)

// maxSealed is what a seal may hold, in bytes.
const maxSealed = 4 << 20

// seal returns v as the store keeps it under a key.
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
	d.UseNumber() // a sender's number has more digits than a float
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("queue: open %s: %w", key, err)
	}
	return nil
}

// head returns a message that is still to be decided on or delivered, and the bytes that the store has of it.
func (q *Queue) head(ctx context.Context, id string) (it *Item, raw []byte, err error) {
	key := headPrefix + id
	raw, err = q.deps.Store.Get(ctx, nil, []byte(key))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, ErrNotFound
	}
	if err != nil {
		return nil, nil, fmt.Errorf("queue: %w", err)
	}
	it = new(Item)
	return it, raw, q.open(key, raw, it)
}

// swap writes a changed head, unless another gateway changed it since raw was read.
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

// Get returns a message, or the record of one.
func (q *Queue) Get(ctx context.Context, id string) (*Item, error) {
	it, _, err := q.head(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return it, err
	}
	raw, err := q.deps.Store.Get(ctx, nil, []byte(donePrefix+id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	it = new(Item)
	return it, q.open(donePrefix+id, raw, it)
}

// Request returns the request that a message came in.
func (q *Queue) Request(ctx context.Context, id string) (*Request, error) {
	raw, err := q.deps.Store.Get(ctx, nil, []byte(bodyPrefix+id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	r := new(Request)
	return r, q.open(bodyPrefix+id, raw, r)
}

// Filter says which messages are listed or erased. Empty fields fit everything.
type Filter struct {
	State   State
	Service string
	Sender  string // an address, or a subject as kind:id
}

func (f *Filter) fits(it *Item) bool {
	return (f.State == "" || f.State == it.State) && (f.Service == "" || f.Service == it.Service) &&
		(f.Sender == "" || f.Sender == it.Client || f.Sender == it.Subject || f.Sender == "ip:"+it.Client)
}

// List returns the messages and records that fit, the oldest first.
func (q *Queue) List(ctx context.Context, f Filter) ([]*Item, error) {
	var out []*Item
	for _, prefix := range [...]string{headPrefix, donePrefix} {
		err := q.deps.Store.Scan(ctx, []byte(prefix), func(k, v []byte, _ time.Duration) error {
			it := new(Item)
			if err := q.open(string(k), v, it); err != nil {
				q.deps.Log.Error().Err(err).Msg("a message of the queue is not readable")
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
