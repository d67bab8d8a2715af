package captcha

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"image/png"
	"strconv"
	"strings"
	"time"
	"unicode"

	dchest "github.com/dchest/captcha"

	"antirobot/captcha/media"
	"antirobot/captcha/picture"
	"antirobot/spravka"
)

// kind is one kind of challenge. Its question is sealed into the key as its secret: nothing else carries state.
type kind interface {
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

// silent is a browser check without the person: a little work, and a part of the page that only the holder of the key
// is served. Its secret is that of work, then the part's width and height in pixels.
type silent struct{}

const (
	silentCode   = 3
	silentSecret = workSeed + 4 + 2
	partMark     = "x" // precedes the part's size in an answer
)

func (silent) issue(price int64) []byte {
	size := spravka.NewID()
	return append(work{}.issue(price), size[0]|1, size[1]|1) // neither is 0
}

func (silent) check(secret []byte, answer string) (right, given bool) {
	if answer == "" {
		return false, false
	}
	numbers, size, _ := strings.Cut(answer, partMark)
	if len(secret) != silentSecret || size != strconv.Itoa(int(secret[workSeed+4])<<8|int(secret[workSeed+5])) {
		return false, true
	}
	right, _ = work{}.check(secret[:workSeed+4], numbers)
	return right, true
}

func (silent) render(m media.Medium, _ string, secret []byte, _ uint8, _ string) ([]byte, error) {
	if m != media.Picture || len(secret) != silentSecret {
		return nil, errNoMedium
	}
	return []byte{
		'G', 'I', 'F', '8', '9', 'a', secret[workSeed+4], 0, secret[workSeed+5], 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0,
		0x21, 0xf9, 4, 1, 0, 0, 0, 0, // the colour is transparent
		',', 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 'D', 1, 0, ';',
	}, nil
}

// press is the same behind a button. How the button was pressed follows in the answer; it gates nothing, but counts
// as a sign of machines (see mechanical).
type press struct{ silent }

const pressCode = 4

func (press) check(secret []byte, answer string) (right, given bool) {
	proof, _ := cutPress(answer)
	return silent{}.check(secret, proof)
}

func cutPress(answer string) (proof, pressed string) {
	numbers, rest, _ := strings.Cut(answer, partMark)
	size, pressed, _ := strings.Cut(rest, partMark)
	return numbers + partMark + size, pressed
}

// reaction is the time within which people do not press a button that has just appeared.
const reaction = 150 * time.Millisecond

// mechanical reports whether the press of a right answer looks like a machine's: by a script, by a mouse that never
// moved, or faster than people react. Scripts for accessibility and a resting hand press like that, too. Missing or
// malformed data says nothing.
func mechanical(k *key, answer string) bool {
	_, pressed := cutPress(answer)
	if k.kind != pressCode || pressed == "" {
		return false
	}
	numbers := strings.Split(pressed[1:], ".")
	if len(numbers) != 3 {
		return false
	}
	moves, err1 := strconv.ParseUint(numbers[0], 10, 16)
	since, err2 := strconv.ParseUint(numbers[1], 10, 32)
	if err1 != nil || err2 != nil {
		return false
	}
	return pressed[0] == 'u' || pressed[0] == 'm' && moves == 0 || time.Duration(since)*time.Millisecond < reaction
}

// move is a check of the browser that a browser with a key passes by proving itself.
type move struct{ silent }

const moveCode = 6

// WorkConfig is the price of the puzzle-free way: work by the visitor's browser. It proves no person but has a cost,
// and its passes count like any other.
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

// work is a challenge of workParts small tasks. Each part p (from 0) asks for a number n such that the first four
// bytes of SHA-256(seed, p, n), read as a big-endian number, are less than `below`; p and n are four big-endian bytes
// each. Several small tasks take a more predictable time than one large one, and show progress.
type work struct{}

const (
	workCode  = 2
	workParts = 16
	workSeed  = 16 // bytes
)

// issue makes a seed and stores the price with it, so that an answer is checked against the price of its key.
func (work) issue(price int64) []byte {
	seed := spravka.NewID()
	return binary.BigEndian.AppendUint32(seed[:], uint32(price)) //nolint:gosec // at most maxWork
}

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

// check reads the numbers of all parts, in decimal, separated by dots. Nothing that it compares is secret.
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

func (q *Request) offersWork() bool { return q.Service.work && q.Partner == nil }

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
