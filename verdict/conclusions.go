package verdict

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict/bans"
)

// Where gateways and processors are different processes, the processors' conclusions reach the gateways over the store's
// feed: bans in their own topic, and excesses, readers, doubts,
// campaigns, standings, and where people are met. A message holds several of them. Times in it are
// those of the store's clock. What a gateway has missed while the topic still had it, it reads when it starts.

const conclusionTopic = "conclusions"

// What a conclusion is about; each is followed by its length (uvarint) and what its reader says.
const (
	saidExcess   = 'q'
	saidDoubt    = 'd'
	saidStanding = 's'
	saidCampaign = 'c'
	saidMet      = 'm'
	saidReader   = 'l'
	saidBeat     = 'h' // a processor works: when (unix milliseconds), and how old the events are that it judges (milliseconds)
)

// Part is what a process does of the work.
type Part uint8

// The parts.
const (
	PartAll       Part = iota
	PartGateway        // decides, and hears the conclusions of others
	PartProcessor      // judges, and tells its conclusions
)

const (
	conclusionQueue = 1 << 14
	conclusionBatch = 32 << 10 // bytes of a message
)

// conclusions is what is told and heard.
type conclusions struct {
	waiting  chan []byte // nil: nothing is told
	dropped  atomic.Uint64
	told     atomic.Uint64
	heard    atomic.Uint64
	beatAt   atomic.Int64 // unix nanoseconds of the last beat that was heard
	beatAge  atomic.Int64 // nanoseconds
	hearsAny bool
}

func newConclusions(part Part) *conclusions {
	c := &conclusions{hearsAny: part == PartGateway}
	if part == PartProcessor {
		c.waiting = make(chan []byte, conclusionQueue)
	}
	return c
}

// register adds the metrics of what this process does.
func (c *conclusions) register(gauge func(name string, f func() float64)) {
	if c.tells() {
		gauge("antirobot_conclusions_told_total", func() float64 { return float64(c.told.Load()) })
		gauge("antirobot_conclusions_dropped_total", func() float64 { return float64(c.dropped.Load()) })
	}
	if c.hearsAny {
		gauge("antirobot_conclusions_heard_total", func() float64 { return float64(c.heard.Load()) })
	}
}

// tell passes a conclusion on; it never waits.
func (c *conclusions) tell(kind byte, body []byte) {
	msg := append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...)
	select {
	case c.waiting <- msg:
		c.told.Add(1)
	default:
		c.dropped.Add(1)
	}
}

// tells reports whether conclusions are passed on.
func (c *conclusions) tells() bool { return c.waiting != nil }

// tellAll writes to the feed what is told, until ctx ends, and then what is left. A message that the store does not take is
// tried again; meanwhile the queue fills.
func (c *Cacher) tellAll(ctx context.Context) {
	for {
		var msg []byte
		select {
		case msg = <-c.said.waiting:
		case <-ctx.Done():
			c.tellLast()
			return
		}
		msg = c.said.more(msg)
		for c.st.Append(ctx, conclusionTopic, msg) != nil && ctx.Err() == nil {
			store.Pause(ctx, followPause)
		}
	}
}

// more appends what else is waiting, up to a message's length.
func (c *conclusions) more(msg []byte) []byte {
	for len(msg) < conclusionBatch {
		select {
		case next := <-c.waiting:
			msg = append(msg, next...)
		default:
			return msg
		}
	}
	return msg
}

func (c *Cacher) tellLast() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for len(c.said.waiting) > 0 {
		if c.st.Append(ctx, conclusionTopic, c.said.more(nil)) != nil {
			return
		}
	}
}

// hearAll takes over what processors tell, until ctx ends: first what the topic still has, then what comes.
func (c *Cacher) hearAll(ctx context.Context) {
	from := "0"
	for ctx.Err() == nil {
		err := c.st.Follow(ctx, conclusionTopic, from, func(pos string, msg []byte) error {
			from = pos
			if c.heardConclusions(msg) != nil {
				c.badRecords.Inc()
			}
			return nil
		})
		if errors.Is(err, store.ErrGap) || errors.Is(err, store.ErrPosition) {
			from = "0"
		}
		store.Pause(ctx, followPause)
	}
}

// Beat tells the gateways that this processor works, and how old the events are that it judges.
func (c *Cacher) Beat(age time.Duration) {
	if !c.said.tells() {
		return
	}
	body := binary.BigEndian.AppendUint64(nil, uint64(c.now().Add(c.skewNow()).UnixMilli())) //nolint:gosec // after 1970
	c.said.tell(saidBeat, binary.BigEndian.AppendUint64(body, uint64(max(age, 0).Milliseconds())))
}

// Heard returns when a processor was last heard of, and how old the events were that it judged.
func (c *Cacher) Heard() (at time.Time, age time.Duration) {
	return time.Unix(0, c.said.beatAt.Load()), time.Duration(c.said.beatAge.Load())
}

var errConclusion = errors.New("malformed conclusion")

// heardConclusions handles one message of the feed. A kind of a later version is passed over.
func (c *Cacher) heardConclusions(msg []byte) error {
	for len(msg) > 0 {
		kind := msg[0]
		n, w := binary.Uvarint(msg[1:])
		if w <= 0 || n > uint64(len(msg)-1-w) {
			return errConclusion
		}
		body := msg[1+w : 1+w+int(n)] //nolint:gosec // no longer than the message
		msg = msg[1+w+int(n):]        //nolint:gosec // as above
		ok := true
		switch kind {
		case saidExcess:
			ok = c.heardExcess(body)
		case saidReader:
			ok = c.heardReader(body)
		case saidDoubt:
			ok = c.heardDoubt(body)
		case saidStanding:
			ok = c.heardStanding(body)
		case saidCampaign:
			ok = c.heardCampaign(body)
		case saidMet:
			ok = c.heardMet(body)
		case saidBeat:
			ok = c.heardBeat(body)
		}
		if !ok {
			return errConclusion
		}
		c.said.heard.Add(1)
	}
	return nil
}

func (c *Cacher) heardBeat(b []byte) bool {
	if len(b) != 16 {
		return false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b))).Add(-c.skewNow()) //nolint:gosec // any time will do
	age := time.Duration(min(binary.BigEndian.Uint64(b[8:]), uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	now := c.now()
	if at.After(now) {
		at = now
	}
	if at.UnixNano() >= c.said.beatAt.Load() {
		c.said.beatAt.Store(at.UnixNano())
		c.said.beatAge.Store(int64(age))
	}
	return true
}

// heardTime returns a time of the store's clock by our own.
func (c *Cacher) heardTime(b []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b))).Add(-c.skewNow()) //nolint:gosec // any time will do
}

// appendDoubt appends a doubt: subject, group, until (unix milliseconds, 0: it is taken back), score, factors.
func (c *Cacher) appendDoubt(dst []byte, d *Doubt) []byte {
	dst = append(append(dst, byte(d.Subject.Kind)), d.Subject.ID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, d.Group)
	var until uint64
	if !d.Until.IsZero() {
		until = uint64(d.Until.Add(c.skewNow()).UnixMilli()) //nolint:gosec // after 1970
	}
	dst = binary.BigEndian.AppendUint64(dst, until)
	dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(d.Score))
	for i := range d.Factors {
		if d.Factors[i].Name == "" {
			break
		}
		dst = bans.AppendText(dst, d.Factors[i].Name)
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(d.Factors[i].Value))
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(d.Factors[i].Amount))
	}
	return dst
}

func (c *Cacher) heardDoubt(b []byte) bool {
	const fixed = 17 + 4 + 8 + 4
	if len(b) < fixed {
		return false
	}
	d := Doubt{Subject: identity.Subject{Kind: identity.Kind(b[0]), ID: [16]byte(b[1:])}, Group: binary.BigEndian.Uint32(b[17:])}
	d.Score = math.Float32frombits(binary.BigEndian.Uint32(b[29:]))
	ends := binary.BigEndian.Uint64(b[21:]) != 0
	if ends {
		d.Until = c.heardTime(b[21:])
	}
	b = b[fixed:]
	var ok bool
	for i := 0; len(b) > 0; i++ {
		if i == bans.MaxFactors {
			return false
		}
		f := &d.Factors[i]
		if f.Name, b, ok = bans.CutText(b, bans.MaxName); !ok || f.Name == "" || len(b) < 8 {
			return false
		}
		f.Value = math.Float32frombits(binary.BigEndian.Uint32(b))
		f.Amount = math.Float32frombits(binary.BigEndian.Uint32(b[4:]))
		b = b[8:]
	}
	if d.Subject.Kind == identity.KindNone || d.Subject.Kind > identity.KindIP || !(d.Score >= 0 && d.Score <= 1) {
		return false
	}
	if !ends || d.Until.After(c.now()) {
		c.doubts.put(&d)
	}
	return true
}

// tellStanding passes on what has become known of a subject.
func (c *Cacher) tellStanding(s identity.Subject, record []byte) {
	c.said.tell(saidStanding, append(append([]byte{byte(s.Kind)}, s.ID[:]...), record...))
}

func (c *Cacher) heardStanding(b []byte) bool {
	return len(b) > 17 && c.standing.Merge(identity.Subject{Kind: identity.Kind(b[0]), ID: [16]byte(b[1:])}, b[17:])
}
