package message

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/message/learn"
	"antirobot/rules"
	"antirobot/store"
)

// Model classifies and learns texts. Each text is in the store, under a key that begins with its time, before Train
// returns. A restart learns the texts again, the newest keepTexts of each kind. Safe for concurrent use.
type Model struct {
	store   store.Store
	prefix  string
	kind    string
	maxText int
	node    uint32
	start   *learn.Start // nil: none
	now     func() time.Time

	serial atomic.Uint32
	known  atomic.Pointer[knowledge]
	mu     sync.Mutex // of learning
}

// knowledge is what a model has learnt. The learner and the prints are safe for concurrent use; Model.mu guards the
// rest.
type knowledge struct {
	learner learn.Learner
	taught  *learn.Prints // bad texts, which are found again
	keys    map[string]struct{}
	texts   map[bool]int // by kind; true: good
}

func newModel(deps Deps, prefix string, cfg PropertyConfig, node uint32, start *learn.Start) *Model {
	m := &Model{
		store: deps.Store, now: deps.Now, prefix: prefix, kind: cfg.Model, maxText: min(MaxText, learn.MaxText), node: node,
	}
	if cfg.Model != learn.Robinson {
		m.start = start
	}
	m.known.Store(m.ignorance())
	return m
}

func (m *Model) ignorance() *knowledge {
	return &knowledge{
		learner: learn.New(m.kind, maxFeatures), taught: learn.NewPrints(keepTexts),
		keys: make(map[string]struct{}), texts: make(map[bool]int),
	}
}

// Size returns how much the model knows.
func (m *Model) Size() learn.Size { return m.known.Load().learner.Size() }

// trainRecord is a text with its marker.
type trainRecord struct {
	Key  string `json:"k"`
	Text string `json:"t"`
	Good bool   `json:"g"`
}

func (r *trainRecord) value() []byte {
	marker := byte('b')
	if r.Good {
		marker = 'g'
	}
	return append([]byte{marker}, r.Text...)
}

// at returns the time at the beginning of the key.
func (r *trainRecord) at() time.Time {
	b, err := hex.DecodeString(r.Key)
	if err != nil || len(b) < 8 {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b)))
}

func (m *Model) textKey(key string) []byte { return []byte(m.prefix + "text/" + key) }

// train learns a text durably; other gateways apply the record.
func (m *Model) train(ctx context.Context, text string, good bool) (r trainRecord, err error) {
	key := binary.BigEndian.AppendUint64(nil, uint64(m.now().UnixMicro()))
	key = binary.BigEndian.AppendUint32(key, m.node)
	key = binary.BigEndian.AppendUint32(key, m.serial.Add(1))
	r = trainRecord{Key: hex.EncodeToString(key), Text: rules.Clip(text, m.maxText), Good: good}
	if err := m.store.Put(ctx, m.textKey(r.Key), r.value(), 0); err != nil {
		return r, fmt.Errorf("train: %w", err)
	}
	m.apply(r)
	return r, nil
}

func (m *Model) apply(r trainRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known.Load()
	k.learn(r)
	k.learner.Fit()
}

func (k *knowledge) learn(r trainRecord) {
	if _, again := k.keys[r.Key]; again {
		return
	}
	k.keys[r.Key] = struct{}{}
	k.texts[r.Good]++
	k.learner.Train(r.Text, r.Good)
	p, ok := printOf(r.Text)
	switch at := r.at(); {
	case !ok:
	case r.Good:
		k.taught.Remove(&p, at)
	default:
		k.taught.Add(p, at.Add(taughtFor))
	}
}

// records returns the texts in the store, the newest first.
func (m *Model) records(ctx context.Context) (out []trainRecord, err error) {
	prefix := m.textKey("")
	err = m.store.Scan(ctx, prefix, func(k, v []byte, _ time.Duration) error {
		if len(v) > 0 {
			out = append(out, trainRecord{string(k[len(prefix):]), string(v[1:]), v[0] == 'g'})
		}
		return nil
	})
	slices.SortFunc(out, func(a, b trainRecord) int { return cmp.Compare(b.Key, a.Key) })
	return out, err
}

// load learns the texts in the store anew, and removes the oldest ones beyond keepTexts of a kind.
func (m *Model) load(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	records, err := m.records(ctx)
	if err != nil {
		return fmt.Errorf("load the model %s: %w", m.prefix, err)
	}
	left := map[bool]int{false: keepTexts, true: keepTexts}
	var old []trainRecord
	records = slices.DeleteFunc(records, func(r trainRecord) bool {
		if left[r.Good]--; left[r.Good] < 0 {
			old = append(old, r)
		}
		return left[r.Good] < 0
	})
	next := m.ignorance()
	for _, r := range slices.Backward(records) {
		next.learn(r)
	}
	next.learner.Fit()
	m.known.Store(next)
	for _, r := range old {
		if err := m.store.Delete(ctx, m.textKey(r.Key)); err != nil {
			return fmt.Errorf("shorten the model %s: %w", m.prefix, err)
		}
	}
	return nil
}

// shorten learns anew if there are many more texts than are kept.
func (m *Model) shorten(ctx context.Context) error {
	m.mu.Lock()
	texts := m.known.Load().texts
	full := max(texts[true], texts[false]) > keepTexts+keepTexts/4
	m.mu.Unlock()
	if !full {
		return nil
	}
	return m.load(ctx)
}

// ErrOld says that a text can't be unlearnt.
var ErrOld = errors.New("the model has no such text that it could unlearn: it was not taught so, or is too old")

// unlearn takes back the last training with a text.
func (m *Model) unlearn(ctx context.Context, text string, good bool) error {
	records, err := m.records(ctx)
	if err != nil {
		return fmt.Errorf("unlearn: %w", err)
	}
	text = rules.Clip(text, m.maxText)
	at := slices.IndexFunc(records, func(r trainRecord) bool { return r.Good == good && r.Text == text })
	if at < 0 {
		return ErrOld
	}
	if err := m.store.Delete(ctx, m.textKey(records[at].Key)); err != nil {
		return fmt.Errorf("unlearn: %w", err)
	}
	return m.load(ctx)
}

// Opinion is a model's judgement of a text.
type Opinion struct {
	Score   float64 // 0 to 1; more than 0.5 is bad
	By      string
	Reasons []string // the strongest first; positive numbers for bad
}

// Bad says whether the text is bad.
func (o Opinion) Bad() bool { return o.Score > 0.5 }

func (o Opinion) String() string {
	return fmt.Sprintf("the text scores %.3f by %s: %s", o.Score, o.By, strings.Join(o.Reasons, ", "))
}

// Values of Opinion.By, besides learn.StartName.
const (
	byModel   = "model"   // it knows enough
	byTaught  = "taught"  // similar to a text that was taught as bad
	byNothing = "nothing" // it knows too little, and there is no start
)

const maxReasons = 5

var readers = sync.Pool{New: func() any { return new(learn.Printer) }}

func printOf(text string) (p learn.Print, ok bool) {
	r := readers.Get().(*learn.Printer) //nolint:forcetypeassert // nothing else is put there
	defer readers.Put(r)
	return r.Print(text)
}

func (m *Model) score(text string) (score float64, by string) {
	k := m.known.Load()
	switch {
	case k.learner.Ready():
		score, by = k.learner.Score(text), byModel
	case m.start != nil:
		score, by = m.start.Score(text), learn.StartName
	default:
		score, by = 0.5, byNothing
	}
	if like := m.like(text); like > 0 && taughtScore(like) > score {
		return taughtScore(like), byTaught
	}
	return score, by
}

// Good is Classify without reasons.
func (m *Model) Good(text string) bool {
	score, _ := m.score(text)
	return score <= 0.5
}

func (m *Model) like(text string) float64 {
	taught := m.known.Load().taught
	if taught.Len() == 0 {
		return 0
	}
	p, ok := printOf(text)
	if !ok {
		return 0
	}
	return taught.Find(&p, m.now())
}

func taughtScore(like float64) float64 { return 0.5 + like/2 }

// Classify returns the model's opinion with reasons.
func (m *Model) Classify(text string) Opinion {
	o := Opinion{}
	o.Score, o.By = m.score(text)
	var spoke []learn.Spoke
	switch o.By {
	case byTaught:
		o.Reasons = []string{fmt.Sprintf("like a text that was taught as bad (%.0f %%)", 100*m.like(text))}
	case byNothing:
		size := m.Size()
		o.Reasons = []string{fmt.Sprintf("the model knows too little to judge: %d good and %d bad texts, of at least %d and %d",
			size.Good, size.Bad, learn.LeastGood, learn.LeastBad)}
	case byModel:
		spoke = m.known.Load().learner.Explain(text)
	default:
		spoke = m.start.Explain(text)
	}
	for _, s := range spoke[:min(maxReasons, len(spoke))] {
		o.Reasons = append(o.Reasons, fmt.Sprintf("%s %+.2f", strings.TrimSpace(s.Token), s.Weight))
	}
	return o
}
