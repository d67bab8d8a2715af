package captcha

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"antirobot/captcha/media"
	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/spravka"
)

// key is the content of a captcha key. It is encrypted, because it contains the answer.
type key struct {
	kind    byte
	channel channel
	nonce   [16]byte   // ends with Captcha.home of the gateway that made it
	issued  int64      // unix milliseconds
	addr    netip.Addr // the client; for a partner's user the X-Real-Ip
	partner uint64     // the XML partner's hash, 0: none
	mark    uint64     // markHash of the browser's probe cookie
	ret     uint64     // returnHash of the visitor's destination, 0: unknown
	asked   Step       // what the ladder asked for
	level   uint8      // how hard picture and sound are made
	way     way        // in which the challenge is counted
	secret  []byte
}

type channel byte

const (
	channelPage channel = 1 // and JSON
	channelXML  channel = 2
)

// way is how a challenge is presented, for the counts. All keys of one challenge have the way that it was shown in,
// so that no way has more answers than challenges.
type way byte

const (
	wayPage way = iota
	wayForm
	wayScript
	wayXML
	wayWork
	waySilent
	wayPress
	wayDynamic
	wayCount
)

func (w way) String() string { return outcomes.Ways[w] }

const (
	keyVersion = 5
	keyFixed   = 1 + 1 + 1 + 1 + 1 + 1 + 16 + 8 + 16 + 8 + 8 + 8
)

func (k *key) append(dst []byte) []byte {
	dst = append(dst, keyVersion, k.kind, byte(k.channel), byte(k.way), byte(k.asked), k.level)
	dst = append(dst, k.nonce[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.issued))
	addr := k.addr.As16()
	dst = append(dst, addr[:]...)
	dst = binary.BigEndian.AppendUint64(dst, k.partner)
	dst = binary.BigEndian.AppendUint64(dst, k.mark)
	dst = binary.BigEndian.AppendUint64(dst, k.ret)
	return append(dst, k.secret...)
}

func parseKey(b []byte) (k key, ok bool) {
	if len(b) < keyFixed || len(b) > keyFixed+maxSecret || b[0] != keyVersion || b[3] >= byte(wayCount) {
		return key{}, false
	}
	k.kind, k.channel, k.way = b[1], channel(b[2]), way(b[3])
	k.asked, k.level = Step(b[4]), b[5]
	b = b[6:]
	copy(k.nonce[:], b)
	k.issued = int64(binary.BigEndian.Uint64(b[16:]))
	k.addr = netip.AddrFrom16([16]byte(b[24:40])).Unmap()
	k.partner = binary.BigEndian.Uint64(b[40:])
	k.mark = binary.BigEndian.Uint64(b[48:])
	k.ret = binary.BigEndian.Uint64(b[56:])
	k.secret = b[64:]
	return k, k.channel == channelPage || k.channel == channelXML
}

// issuer makes and opens the keys of challenges.
type issuer struct {
	*core
	pages  *pages
	probes *probes
	kinds  map[byte]kind // by their codes, which are never reused
	digits *digits
	maker  *media.Maker
	home   [4]byte // names the memory of spent keys that the keys issued here belong to
}

func newIssuer(co *core, pg *pages, pb *probes, b *bounds) *issuer {
	cfg := &co.cfg
	d := newDigits(cfg.Digits, cfg.TestAnswer)
	is := &issuer{
		core: co, pages: pg, probes: pb,
		digits: d,
		kinds: map[byte]kind{
			digitsCode: d, workCode: work{}, silentCode: silent{}, pressCode: press{}, movingCode: moving{d}, moveCode: move{},
		},
		maker: media.New(media.Config{Places: b.places, Queue: b.queue, Wait: b.wait, Cache: b.cache}),
	}
	id := spravka.NewID()
	copy(is.home[:], id[:])
	return is
}

// issue returns the token of a key for who, the user of partner if that is not 0. to is the visitor's destination.
func (is *issuer) issue(q *Request, ch channel, who netip.Addr, partner uint64, to string, at time.Time) string {
	k := key{
		kind: digitsCode, channel: ch, way: wayXML, addr: who, partner: partner, asked: stepDigits,
		secret: is.digitsFor(q, 0),
	}
	return is.seal(q, &k, to, at)
}

func (is *issuer) issueDigits(q *Request, asked question, to string, at time.Time) string {
	level := asked.level()
	k := key{
		kind: digitsCode, channel: channelPage, addr: q.ID.Addr, asked: asked.step, level: level,
		way: asked.way, secret: is.digitsFor(q, level),
	}
	return is.seal(q, &k, to, at)
}

func (is *issuer) issueCheck(q *Request, asked question, to string, at time.Time) (token string, t task) {
	k := key{
		kind: silentCode, channel: channelPage, way: waySilent, addr: q.ID.Addr, asked: asked.step,
		secret: silent{}.issue(checkWork(asked.earned)),
	}
	switch {
	case asked.move:
		k.kind = moveCode
	case asked.step == stepPress:
		k.kind, k.way = pressCode, wayPress
	}
	t = work{}.task(k.secret[:workSeed+4])
	t.Look = is.cfg.LookForDrivers && !asked.move && is.cfg.TestAnswer == "" // tests drive browsers
	return is.seal(q, &k, to, at), t
}

func (is *issuer) newMoving(q *Request, asked question) *key {
	level := uint8(min(asked.earned/passesPerLevel, maxLevel)) //nolint:gosec // at most maxLevel
	return &key{
		kind: movingCode, channel: channelPage, way: wayDynamic, addr: q.ID.Addr, asked: asked.step, level: level,
		secret: moving{}.issue(0),
	}
}

func (is *issuer) seal(q *Request, k *key, to string, at time.Time) string {
	if q.Unread {
		return ""
	}
	k.nonce, k.issued = spravka.NewID(), at.UnixMilli()
	copy(k.nonce[len(k.nonce)-len(is.home):], is.home[:])
	k.mark = markHash(is.probes.probeOf(q).mark)
	if to != "" {
		k.ret = returnHash(to)
	}
	var buf [keyFixed + maxSecret]byte
	return string(is.keys.Ring().SealSecret(nil, spravka.PurposeCaptcha, q.keyContext(), k.append(buf[:0]),
		at.Add(is.cfg.KeyTTL)))
}

func (is *issuer) digitsFor(q *Request, level uint8) []byte {
	if digits := is.maker.Digits(level, func() string { return is.pages.language(q, nil).Voice }); digits != nil {
		return digits
	}
	return is.digits.issue(0)
}

func (is *issuer) open(q *Request, token string, at time.Time) (key, kind, error) {
	b, err := is.keys.Ring().OpenSecret(nil, spravka.PurposeCaptcha, q.keyContext(), []byte(token), at)
	if errors.Is(err, spravka.ErrExpired) {
		return key{}, nil, errKeyExpired
	}
	if err != nil {
		return key{}, nil, errKeyForeign
	}
	k, ok := parseKey(b)
	kd := is.kinds[k.kind]
	if !ok || kd == nil {
		return key{}, nil, errKeyForeign
	}
	return k, kd, nil
}

var (
	errKeyExpired = errors.New("captcha key expired")
	errKeyForeign = errors.New("captcha key is none of ours, or for another place")
)

// shownTo reports whether q comes from where the key was issued: the same network, or the same browser, which may
// have changed networks. A partner's user is seen in no other request.
func (is *issuer) shownTo(k *key, q *Request) bool {
	if k.partner != 0 || sameNet(k.addr, q.ID.Addr) {
		return true
	}
	p := is.probes.probeOf(q)
	return p.returned && markHash(p.mark) == k.mark
}

// answerableBy reports whether q may answer the key. A partner is trusted about its user, to whom the pass is bound.
// A visitor may answer from another network with the mark of the browser; price and pass stay with the network of the
// key.
func (is *issuer) answerableBy(q *Request, k *key) bool {
	if k.partner != 0 {
		return q.Partner == nil || k.partner == q.partnerHash()
	}
	return q.Partner == nil && is.shownTo(k, q)
}

func (q *Request) keyContext() []byte {
	return spravka.AppendContext(nil, q.Service.name, string(q.View.Host))
}

// passID is the ID of the pass that a right answer earns: one key never earns two.
func (k *key) passID() (id [16]byte) {
	sum := sha256.Sum256(append([]byte("pass of "), k.nonce[:]...))
	copy(id[:], sum[:])
	return id
}

func (k *key) step() Step {
	switch k.kind {
	case silentCode, moveCode:
		return stepSilent
	case pressCode:
		return stepPress
	case movingCode:
		return stepDynamic
	default:
		return stepDigits
	}
}

// read reports whether a person reads or hears the challenge.
func (k *key) read() bool { return k.kind == digitsCode || k.kind == movingCode }

// again is the state of an answer to a spent key: a visitor with the pass that the key earned has pressed twice.
func (q *Request) again(k *key) state {
	if q.earned(k) {
		return stateHas
	}
	return stateUsed
}

func (q *Request) earned(k *key) bool {
	id := k.passID()
	for i := range q.ID.NPasses {
		if q.ID.Passes[i].ID == id {
			return true
		}
	}
	return false
}

func sameNet(a, b netip.Addr) bool {
	return identity.NetOf(a) == identity.NetOf(b)
}
