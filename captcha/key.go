package captcha

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"antirobot/captcha/media"
	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/spravka"
)

// key is the content of a captcha key. It is sent encrypted, because it contains the answer.
type key struct {
	kind    byte
	channel channel
	nonce   [16]byte   // ends with Captcha.home of the gateway that made it
	issued  int64      // unix milliseconds
	addr    netip.Addr // who is challenged; for a partner's user the X-Real-Ip
	partner uint64     // the XML partner's hash, 0: none
	mark    uint64     // markHash of the browser's probe cookie
	ret     uint64     // returnHash of the visitor's destination, 0: unknown
	asked   Step       // what the ladder asked for
	level   uint8      // how hard picture and sound are made
	way     way        // in which the challenge is counted
	secret  []byte
}

// channel is where a key may be answered: a page's key is invalid for an XML partner and vice versa.
type channel byte

const (
	channelPage channel = 1 // and JSON
	channelXML  channel = 2
)

// way is how a challenge is presented, which only the counts need to know. All keys of one challenge have the way that it
// was shown in, so that no way has more answers than challenges.
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

// issuer makes the keys of challenges, and opens them.
type issuer struct {
	*core
	pages  *pages
	probes *probes
	kinds  kinds
	maker  *media.Maker
	home   [4]byte // names the memory of spent keys that the keys issued here belong to
}

func newIssuer(co *core, pg *pages, pb *probes, b *bounds) *issuer {
	cfg := &co.cfg
	d := newDigits(cfg.Digits, cfg.Styles, cfg.TestAnswer)
	is := &issuer{
		core: co, pages: pg, probes: pb,
		kinds: kinds{issued: d, all: []kind{d, work{}, silent{}, press{}, moving{d}, move{}}},
		maker: media.New(media.Config{Places: cfg.RenderConcurrency, Queue: b.queue, Wait: b.wait, Cache: b.cache}),
	}
	id := spravka.NewID()
	copy(is.home[:], id[:])
	return is
}

// issue makes a key for who, the user of partner if that is not 0, and returns its token. to is the visitor's destination,
// empty for a partner's user.
func (is *issuer) issue(q *Request, ch channel, who netip.Addr, partner uint64, to string, at time.Time) string {
	k := key{kind: is.kinds.issued.code(), channel: ch, way: wayXML, addr: who, partner: partner, asked: stepDigits, secret: is.digitsFor(q, 0)}
	return is.seal(q, &k, to, at)
}

// issueDigits makes a key for digits on a page or in JSON, whatever step is asked for.
func (is *issuer) issueDigits(q *Request, asked question, to string, at time.Time) string {
	level := asked.level()
	k := key{kind: is.kinds.issued.code(), channel: channelPage, addr: q.ID.Addr, asked: asked.step, level: level, way: asked.way, secret: is.digitsFor(q, level)}
	return is.seal(q, &k, to, at)
}

// issueCheck makes a key for a silent check, a move or a press, and returns the work that it asks for.
func (is *issuer) issueCheck(q *Request, asked question, to string, at time.Time) (token string, t task) {
	kd, shown := kind(silent{}), waySilent
	switch {
	case asked.move:
		kd = move{}
	case asked.step == stepPress:
		kd, shown = press{}, wayPress
	}
	k := key{kind: kd.code(), channel: channelPage, way: shown, addr: q.ID.Addr, asked: asked.step, secret: kd.issue(checkWork(asked.earned))}
	t = work{}.task(k.secret[:workSeed+4])
	t.Look = is.cfg.LookForDrivers && !asked.move && is.cfg.TestAnswer == "" // tests drive browsers
	return is.seal(q, &k, to, at), t
}

// seal completes a key and returns its token.
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
	return string(is.keys.Ring().SealSecret(nil, spravka.PurposeCaptcha, q.keyContext(), k.append(buf[:0]), at.Add(is.cfg.KeyTTL)))
}

// keyContext binds keys and sealed requests to service and host.
func (q *Request) keyContext() []byte {
	return spravka.AppendContext(nil, q.Service.name, string(q.View.Host))
}

// passID is the ID of the pass that a right answer earns: of one key there is never more than one.
func (k *key) passID() (id [16]byte) {
	sum := sha256.Sum256(append([]byte("pass of "), k.nonce[:]...))
	copy(id[:], sum[:])
	return id
}

// again is what an answer to a spent key means: whoever brings the pass that the key earned has pressed twice.
func (q *Request) again(k *key) state {
	if q.earned(k) {
		return stateHas
	}
	return stateUsed
}

// earned reports whether the visitor brings the pass that the key earned.
func (q *Request) earned(k *key) bool {
	id := k.passID()
	for i := range q.ID.NPasses {
		if q.ID.Passes[i].ID == id {
			return true
		}
	}
	return false
}

// passedSince reports whether the visitor of a link has a pass that it had not when the link was made: a visitor who presses twice,
// goes back to the captcha page, reloads it or has it in another tab is led on. Where the pass does not serve (it is spent, or more is
// asked for), the visitor is stopped again, and the next link knows the pass.
func (q *Request) passedSince(l *link) bool {
	mark := q.passMark()
	return mark != "" && l.passes() != mark
}

// passMark is a short mark of the passes that the visitor has earned; empty: there are none.
func (q *Request) passMark() string {
	var all [linkPasses]byte
	some := false
	for i := range q.ID.NPasses {
		p := &q.ID.Passes[i]
		if !p.Earned {
			continue
		}
		some = true
		sum := sha256.Sum256(append([]byte("has "), p.ID[:]...))
		for j := range all { // in whichever order the cookies come
			all[j] ^= sum[j]
		}
	}
	if !some {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(all[:])[:linkPasses]
}

// Reasons why a key can't be answered.
var (
	errKeyExpired = errors.New("captcha key expired")
	errKeyForeign = errors.New("captcha key is none of ours, or for another place")
)

// open reads a key that was issued for this service and host.
func (is *issuer) open(q *Request, token string, at time.Time) (key, kind, error) {
	b, err := is.keys.Ring().OpenSecret(nil, spravka.PurposeCaptcha, q.keyContext(), []byte(token), at)
	if errors.Is(err, spravka.ErrExpired) {
		return key{}, nil, errKeyExpired
	}
	if err != nil {
		return key{}, nil, errKeyForeign
	}
	k, ok := parseKey(b)
	kd := is.kinds.byCode(k.kind)
	if !ok || kd == nil {
		return key{}, nil, errKeyForeign
	}
	return k, kd, nil
}

// sameNet reports whether two addresses are charged to the same network.
func sameNet(a, b netip.Addr) bool {
	return identity.NetOf(a) == identity.NetOf(b)
}
