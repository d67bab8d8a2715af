package captcha

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"antirobot/captcha/media"
	"antirobot/spravka"
)

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

func (work) code() byte { return workCode }

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

func (q *Request) workURL() string {
	if !q.offersWork() {
		return ""
	}
	return q.Service.prefix + "/captcha/work.js"
}
