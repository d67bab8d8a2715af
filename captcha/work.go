package captcha

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"antirobot/captcha/media"
	"antirobot/spravka"
)

// WorkConfig is the price of the puzzle-free way: work that the visitor's browser does. It does not prove a person; it has
// a cost, and a pass paid for by work counts like any other in the rates of its address and network.
type WorkConfig struct {
	// Hashes is the work for the first passes, in expected computations of SHA-256. It grows to ten times as much with
	// the passes that the address and its network earned.
	Hashes int64 `mapstructure:"hashes"`
}

// Bounds of the work. Below the lower one a pass costs nothing, above the upper one a phone works for minutes.
const (
	minWork, maxWork = 1 << 10, 1 << 27
	workGrowth       = 10
)

// workSlack is by what factor the price of work may have risen between its start and its end: people in one office do work
// at the same time. Whoever collects cheap challenges and answers them together exceeds it.
const workSlack = 2

// work is a challenge of workParts small tasks. Each part p (from 0) asks for a number n such that the first four bytes of
// SHA-256(seed, p, n), read as a big-endian number, are less than `below`; p and n are four big-endian bytes each. Several
// small tasks take a more predictable time than one large one, and show the progress of the work.
type work struct{}

const (
	workCode  = 2
	workParts = 16
	workSeed  = 16 // bytes
)

func (work) code() byte { return workCode }

// issue makes a seed and stores the price with it, so that an answer is checked against the price that was asked.
func (work) issue(price int64) []byte {
	seed := spravka.NewID()
	return binary.BigEndian.AppendUint32(seed[:], uint32(price)) //nolint:gosec // at most maxWork
}

// task is what a client is told.
type task struct {
	Seed  string `json:"seed"` // 32 hexadecimal digits
	Parts int    `json:"parts"`
	Below uint32 `json:"below"`
	Look  bool   `json:"look,omitempty"` // driven browsers are to answer digits instead
}

func parseWork(secret []byte) (seed []byte, price int64, ok bool) {
	if len(secret) != workSeed+4 {
		return nil, 0, false
	}
	price = int64(binary.BigEndian.Uint32(secret[workSeed:]))
	return secret[:workSeed], price, price >= minWork
}

func below(price int64) uint32 { return uint32((1 << 32) / (price / workParts)) } //nolint:gosec // price ≥ minWork

func (work) task(secret []byte) task {
	seed, price, ok := parseWork(secret)
	if !ok {
		panic("BUG: a work challenge without a price")
	}
	return task{Seed: hex.EncodeToString(seed), Parts: workParts, Below: below(price)}
}

// maxWorkAnswer bounds an answer in bytes: ten digits and a dot for each part.
const maxWorkAnswer = workParts * 11

// check reads the numbers of all parts, in decimal, separated by dots. Nothing it compares with is secret, so it stops at
// the first wrong part.
func (work) check(secret []byte, answer string) (right, given bool) {
	if answer == "" {
		return false, false
	}
	seed, price, ok := parseWork(secret)
	if !ok || len(answer) > maxWorkAnswer {
		return false, true
	}
	var b [workSeed + 8]byte
	copy(b[:], seed)
	limit := below(price)
	for part := range uint32(workParts) {
		number, rest, more := strings.Cut(answer, ".")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || more != (part < workParts-1) {
			return false, true
		}
		binary.BigEndian.PutUint32(b[workSeed:], part)
		binary.BigEndian.PutUint32(b[workSeed+4:], uint32(n))
		sum := sha256.Sum256(b[:])
		if binary.BigEndian.Uint32(sum[:]) >= limit {
			return false, true
		}
		answer = rest
	}
	return true, true
}

func (work) render(media.Medium, string, []byte, uint8, string) ([]byte, error) {
	return nil, errNoMedium
}

// offersWork reports whether q may be answered by work.
func (q *Request) offersWork() bool { return q.Service.work && q.Partner == nil }

// workURL is the path of the script that does the work; empty if work is not offered.
func (q *Request) workURL() string {
	if !q.offersWork() {
		return ""
	}
	return q.Service.prefix + "/captcha/work.js"
}

// workJSON is a challenge that asks for work. A client that cannot earn a pass now is told before its browser works.
func (ak *asks) workJSON(q *Request, l *link, at time.Time) Response {
	wait := ak.answers.checks.Take(ak.answers.checks.AddrKey(q.ID.Addr, 0), at)
	if wait == 0 {
		wait = ak.prices.exhausted(q, stepDigits, at)
	}
	if wait > 0 {
		ak.count.work["limited"].Inc()
		return ak.pages.limitedJSON(q, 429, wait)
	}
	price, err := ak.prices.presentWorkPrice(q, at)
	if err != nil && !ak.survives(q, "price of work", err) {
		return ak.pages.limitedJSON(q, 503, retryUnavailable)
	}
	secret := ak.issuer.kinds.work.issue(price)
	a := ak.pages.own(q, 200, typeJSON, verdictCaptcha)
	ak.pages.cors(q, &a)
	t := ak.issuer.kinds.work.task(secret)
	a.Body = marshal(challengeJSON{
		Type: "captcha",
		Captcha: challengeBody{
			Key:         ak.issuer.seal(q, &key{kind: workCode, channel: channelPage, way: wayWork, addr: q.ID.Addr, secret: secret}, l.url, at),
			CaptchaPage: q.Base + q.Service.showURL(l),
			CheckURL:    q.Base + q.Service.prefix + "/checkcaptcha",
			ExpiresIn:   int64(ak.cfg.KeyTTL / time.Second),
			WorkURL:     q.Base + q.workURL(),
			Work:        &t,
		},
		V:         1,
		RequestID: q.RequestID,
		Reason:    l.reason().String(),
		Test:      ak.cfg.TestAnswer != "",
	})
	ak.watch.noteShown(q, wayWork, at)
	ak.count.work["issued"].Inc() // no further outcome: it accompanies a challenge that was shown
	return a
}

// presentWorkPrice is the current price of a pass for q's address. On error it is the price of the first pass.
func (pr *prices) presentWorkPrice(q *Request, at time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pr.patience)
	defer cancel()
	e, err := pr.earned(ctx, q.Service.name, q.ID.Addr, at)
	if err != nil {
		return pr.cfg.workPrice(0), fmt.Errorf("count passes: %w", err)
	}
	return pr.cfg.workPrice(e.day), nil
}

// underpaid reports whether a pass that was just counted now costs more work than its key asked for. Passes are counted
// before this, so that concurrent answers count each other.
func (pr *prices) underpaid(k *key, e *earned) bool {
	_, paid, _ := parseWork(k.secret)
	return paid*workSlack < pr.cfg.workPrice(e.prior)
}
