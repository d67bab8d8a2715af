package captcha

import (
	"strconv"
	"strings"
	"time"

	"antirobot/captcha/media"
	"antirobot/spravka"
)

// silent is a browser check without the person: a little work, and a part of the page that only the holder of the key
// is served. Its secret is that of work, then the part's width and height in pixels.
type silent struct{}

const (
	silentCode   = 3
	silentSecret = workSeed + 4 + 2
	partMark     = "x" // precedes the part's size in an answer
)

func (silent) code() byte { return silentCode }

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

func (press) code() byte { return pressCode }

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

func (move) code() byte { return moveCode }
