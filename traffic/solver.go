package traffic

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"antirobot/replay"
)

// SolverAnswer is what the gateway has to ask for (captcha.test_answer) where harvesters read each picture.
const SolverAnswer = "314159"

// solves is how a harvester answers captchas.
type solves struct {
	digits time.Duration // in which it reads a picture; 0: it answers none
	works  bool          // it does the browser's work instead, natively
	shared bool          // all clients use the last pass that one of them earned
}

// recognition is the CPU time that reading a picture takes.
const recognition = time.Millisecond

// paid is what harvesters have spent on captchas.
type paid struct {
	solved int
	hashes uint64
	pass   string // the last one, as a cookie
}

// challenge is what the gateway answers to a script.
type challenge struct {
	Captcha struct {
		Key    string
		Status string
		Work   *work
	}
}

// work is what a browser is to do.
type work struct {
	Seed  string
	Parts uint32
	Below uint32
}

// passPrefix begins the cookie of a pass.
const passPrefix = "spravka="

// solve asks for a picture, reads it, and answers when it is called again after that time. It earns a pass, or returns how long the
// client has to wait; the others go on meanwhile, as the gateway's clock does.
func (c *client) solve(w *world) (wait time.Duration) {
	s, does := w.cfg.harvest, &w.cfg.harvest.make.solves
	if c.reply == "" {
		want := "format=json&new=1"
		if does.works {
			want += "&kind=work"
		}
		ask := w.post(c, want)
		var q challenge
		if json.Unmarshal(ask.Body, &q) != nil || q.Captcha.Key == "" {
			return max(ask.After, time.Second)
		}
		rep := SolverAnswer
		if t := q.Captcha.Work; t != nil {
			var hashes uint64
			rep, hashes = toil(t)
			s.hashes += hashes
		}
		c.reply = "format=json&key=" + q.Captcha.Key + "&rep=" + rep
		if q.Captcha.Work == nil && does.digits > 0 {
			return does.digits
		}
	}
	a := w.post(c, c.reply)
	c.reply = ""
	for _, cookie := range a.Cookies {
		if strings.HasPrefix(cookie, passPrefix) {
			s.solved++
			c.pass, s.pass = cookie, cookie
			return 0
		}
	}
	return max(a.After, time.Second)
}

// post posts to the captcha.
func (w *world) post(c *client, body string) replay.OwnAnswer {
	return w.own(c, &planned{path: "/checkcaptcha", dest: destFetch, post: true}, body)
}

// toil does the work that a browser would do: for each part it looks for a number whose hash is below the bound. It returns how many
// hashes that took, too.
func toil(t *work) (answer string, hashes uint64) {
	raw, err := hex.DecodeString(t.Seed)
	if err != nil {
		return "", 0
	}
	b := append(raw, make([]byte, 8)...)
	found := make([]string, 0, t.Parts)
	for part := range t.Parts {
		binary.BigEndian.PutUint32(b[len(raw):], part)
		for n := uint32(0); ; n++ {
			binary.BigEndian.PutUint32(b[len(raw)+4:], n)
			hashes++
			if sum := sha256.Sum256(b); binary.BigEndian.Uint32(sum[:]) < t.Below {
				found = append(found, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return strings.Join(found, "."), hashes
}

// hashTime is how long one computation of SHA-256 takes here: the fastest of some series, since others run, too.
func hashTime() time.Duration {
	const each = 20_000
	best := time.Hour
	var b [24]byte
	for range 10 {
		began := time.Now()
		for n := range uint32(each) {
			binary.BigEndian.PutUint32(b[:], n)
			b[4] ^= sha256.Sum256(b[:])[0]
		}
		best = min(best, time.Since(began))
	}
	return best / each
}

// cpu is the CPU time that was spent.
func (p *paid) cpu() time.Duration {
	d := time.Duration(p.solved) * recognition
	if p.hashes > 0 {
		d = time.Duration(p.hashes) * hashTime() //nolint:gosec // far below
	}
	return d
}
