package captcha

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"image/png"
	"unicode"

	dchest "github.com/dchest/captcha"

	"antirobot/captcha/media"
	"antirobot/captcha/picture"
)

// kind is one kind of challenge. Its question is sealed into the key as its secret: nothing else carries state.
type kind interface {
	// code names the kind inside keys and is never reused.
	code() byte
	// issue makes a secret of at most maxSecret bytes. price is the cost of the answer, for kinds that have one.
	issue(price int64) []byte
	// check compares in constant time if the secret is hidden from the client. given is false for an empty answer,
	// which spends no key.
	check(secret []byte, answer string) (right, given bool)
	// render makes a medium of the challenge, or returns errNoMedium. The same id gives the same result within one
	// process; level is the difficulty, for kinds that have one.
	render(m media.Medium, id string, secret []byte, level uint8, lang string) ([]byte, error)
}

var errNoMedium = errors.New("the challenge has no such medium")

// maxSecret bounds the secret inside a key.
const maxSecret = 64

type kinds struct {
	issued kind
	work   work
	all    []kind
}

func (ks *kinds) byCode(code byte) kind {
	for _, k := range ks.all {
		if k.code() == code {
			return k
		}
	}
	return nil
}

// digits is a row of digits as a picture and as a sound. Machines read both well (docs/threat-model.md): the price of
// a pass lies in the rates, not here.
type digits struct {
	n     int
	fixed []byte // the test answer, as values 0 to 9
}

const digitsCode = 1

func newDigits(n int, test string) *digits {
	d := &digits{n: n}
	for i := range len(test) {
		d.fixed = append(d.fixed, test[i]-'0')
	}
	return d
}

func (d *digits) code() byte { return digitsCode }

func (d *digits) issue(int64) []byte {
	if d.fixed != nil {
		return bytes.Clone(d.fixed)
	}
	return dchest.RandomDigits(d.n)
}

func (d *digits) check(secret []byte, answer string) (right, given bool) {
	var buf [maxSecret]byte
	got, ok := appendDigits(buf[:0], answer)
	if ok && len(got) == 0 {
		return false, false
	}
	return ok && subtle.ConstantTimeCompare(got, secret) == 1, true
}

func (d *digits) render(m media.Medium, id string, secret []byte, level uint8, lang string) ([]byte, error) {
	for _, v := range secret {
		if v > 9 {
			return nil, fmt.Errorf("render %s: %d is not a digit", m, v)
		}
	}
	var buf bytes.Buffer
	var err error
	switch m {
	case media.Picture:
		plain := dchest.NewImage(id, secret, pictureWidth, pictureHeight)
		err = png.Encode(&buf, picture.Digits(plain.Paletted, level, id))
	case media.Sound:
		a := dchest.NewAudio(id, secret, lang)
		buf.Grow(a.EncodedLen() + 1)
		_, err = a.WriteTo(&buf)
	default:
		return nil, errNoMedium
	}
	return buf.Bytes(), err
}

// The size of a picture, in pixels: twice what the page shows, for screens with small pixels.
const pictureWidth, pictureHeight = 2 * dchest.StdWidth, 2 * dchest.StdHeight

const maxAnswer = 128

// appendDigits appends the values of an answer's digits, in any script; spaces and invisible characters are skipped.
// ok is false for anything else, and for more digits than a secret may have.
func appendDigits(dst []byte, answer string) (_ []byte, ok bool) {
	if len(answer) > maxAnswer {
		return dst, false
	}
	for _, r := range answer {
		switch {
		case '0' <= r && r <= '9':
			dst = append(dst, byte(r-'0'))
		case unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
		default:
			v, ok := digitValue(r)
			if !ok {
				return dst, false
			}
			dst = append(dst, v)
		}
		if len(dst) > maxSecret {
			return dst, false
		}
	}
	return dst, true
}

// digitValue returns the value of a decimal digit of any script. Unicode guarantees that such digits come in runs
// from zero to nine, and the ranges of the table begin where a run does.
func digitValue(r rune) (byte, bool) {
	for _, t := range unicode.Nd.R16 {
		if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi && t.Stride == 1 {
			return byte((r - lo) % 10), true
		}
	}
	for _, t := range unicode.Nd.R32 {
		if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi && t.Stride == 1 {
			return byte((r - lo) % 10), true
		}
	}
	return 0, false
}
