package captcha

import (
	"crypto/subtle"
	"fmt"
	"strings"

	"antirobot/captcha/media"
	"antirobot/captcha/picture"
	"antirobot/spravka"
)

// moving is the dynamic puzzle: moving pictures, of which the next is made when the one before was answered, rightly
// or not. Only the last answer tells. The directions are answered with the arrows or with the digits of a keypad,
// which the sound says: seeing and hearing cost the same. Its secret is the number of the round, whether one was
// answered wrongly, and the directions.
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
	r.next = &key{
		kind: movingCode, channel: k.channel, way: k.way, addr: k.addr, asked: k.asked, level: k.level,
		secret: movingRound(k.secret[0]+1, wrong),
	}
	return true
}
