package captcha

import (
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"antirobot/captcha/media"
	"antirobot/captcha/picture"
	"antirobot/spravka"
	"antirobot/templates"
)

// moving is the dynamic puzzle: moving pictures, of which the next is made when the one before was answered, rightly or not.
// Only the last answer tells. The directions are answered with the arrows or with the digits of a keypad, which the sound
// says: to see and to hear it costs the same. Its secret is the number of the round, whether one was answered wrongly, and
// the directions.
type moving struct{ digits *digits }

const (
	movingCode   = 5
	movingRounds = 2 // with three moves each, one guess in 4096 is right
	movingSecret = 2 + picture.Moves
)

func (moving) code() byte { return movingCode }

func (moving) issue(int64) []byte { return movingRound(0, 0) }

func movingRound(round, wrong byte) []byte {
	secret := append(make([]byte, 0, movingSecret), round, wrong)
	id := spravka.NewID()
	for _, b := range id[:picture.Moves] {
		secret = append(secret, picture.Directions[b&3])
	}
	return secret
}

// arrows are the directions as the page's buttons write them.
var arrows = strings.NewReplacer("↑", "8", "↓", "2", "←", "4", "→", "6")

func (m moving) check(secret []byte, answer string) (right, given bool) {
	if len(answer) > maxAnswer {
		return false, true
	}
	var buf [maxSecret]byte
	got, ok := appendDigits(buf[:0], arrows.Replace(answer))
	if ok && len(got) == 0 {
		return false, false
	}
	if m.digits.fixed != nil && subtle.ConstantTimeCompare(got, m.digits.fixed) == 1 {
		return true, true // a test's answer
	}
	return ok && len(secret) == movingSecret && secret[1] == 0 && subtle.ConstantTimeCompare(got, secret[2:]) == 1, true
}

func (m moving) render(medium media.Medium, id string, secret []byte, level uint8, lang string) ([]byte, error) {
	if len(secret) != movingSecret {
		return nil, fmt.Errorf("render %s: not the secret of a moving picture", medium)
	}
	if medium == media.Picture {
		return picture.Moving(secret[2:], level, id)
	}
	return m.digits.render(medium, id, secret[2:], level, lang)
}

// lastRound reports whether the answer to a key of a moving picture is the one that tells.
func lastRound(k *key) bool { return len(k.secret) != movingSecret || k.secret[0]+1 >= movingRounds }

// goesOn prepares the next round, if the answered key has one.
func (r *result) goesOn(right bool) bool {
	k := &r.key
	if k.kind != movingCode || lastRound(k) {
		return false
	}
	wrong := k.secret[1]
	if !right {
		wrong = 1
	}
	r.next = &key{kind: movingCode, channel: k.channel, way: k.way, addr: k.addr, asked: k.asked, level: k.level, secret: movingRound(k.secret[0]+1, wrong)}
	return true
}

// reading makes the key of a page that is read or heard: a moving picture where one is asked for, or the one that p goes on
// with; digits otherwise, also for who asked for them instead.
func (ak *asks) reading(q *Request, p *params, asked question, to string, at time.Time) (token string, moves bool) {
	if p != nil && p.key != "" {
		if k, _, err := ak.issuer.open(q, p.key, at); err == nil && k.kind == movingCode && ak.issuer.shownTo(&k, q) {
			return p.key, true
		}
	}
	if asked.step < stepDynamic || p != nil && p.step != "" {
		return ak.issuer.issueDigits(q, asked, to, at), false
	}
	return ak.issuer.seal(q, ak.issuer.newMoving(q, asked), to, at), true
}

// showMoving makes page one with a moving picture; in a browser without scripts it has digits, as for who asks for them instead.
func (ak *asks) showMoving(q *Request, page *templates.ChallengePage, lang *templates.Language, asked question, to string, at time.Time) {
	asked.step = max(asked.step, stepDynamic)
	page.Moving, page.Still = true, ak.challenge(q, lang, ak.issuer.issueDigits(q, asked, to, at))
}

// instead returns what p's visitor has chosen in place of what they were asked for, now or on the page that p comes from: digits, or
// nothing.
func (ak *asks) instead(q *Request, p *params, at time.Time) string {
	if p.step == "" && p.key != "" {
		if k, _, err := ak.issuer.open(q, p.key, at); err == nil && k.kind == digitsCode && k.asked != stepDigits {
			return stepDigits.String()
		}
	}
	return p.step
}

func (is *issuer) newMoving(q *Request, asked question) *key {
	level := uint8(min(asked.earned/passesPerLevel, maxLevel)) //nolint:gosec // at most maxLevel
	return &key{kind: movingCode, channel: channelPage, way: wayDynamic, addr: q.ID.Addr, asked: asked.step, level: level, secret: moving{}.issue(0)}
}
