package captcha

import (
	"strconv"
	"strings"

	"antirobot/spravka"
)

// silent is a check of the browser that asks nothing of the person: a little work, and a part of the page that only the
// holder of the key is served. Its secret is that of work, followed by the part's width and height in pixels.
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

// check reads the answer to the work, then the part's width times 256 plus its height. Nothing of that is secret to a
// browser that asked for the part.
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

// render makes the part: an empty picture whose size the page's script reads.
func (silent) render(m medium, _ string, secret []byte, _ uint8, _ string) ([]byte, error) {
	if m != picture || len(secret) != silentSecret {
		return nil, errNoMedium
	}
	return []byte{
		'G', 'I', 'F', '8', '9', 'a', secret[workSeed+4], 0, secret[workSeed+5], 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0,
		0x21, 0xf9, 4, 1, 0, 0, 0, 0, 0, // the colour is transparent
		',', 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 'D', 1, 0, ';',
	}, nil
}

// press is the same behind a button. How the button was pressed follows in the answer, after another partMark; it is
// evidence and gates nothing.
type press struct{ silent }

const pressCode = 4

func (press) code() byte { return pressCode }

func (press) check(secret []byte, answer string) (right, given bool) {
	proof, _ := cutPress(answer)
	return silent{}.check(secret, proof)
}

// cutPress separates how a button was pressed from the rest of an answer.
func cutPress(answer string) (proof, pressed string) {
	numbers, rest, _ := strings.Cut(answer, partMark)
	size, pressed, _ := strings.Cut(rest, partMark)
	return numbers + partMark + size, pressed
}
