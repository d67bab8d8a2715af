package captcha

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"antirobot/identity"
)

// working returns an env whose service offers work, at a price that a test can afford.
func working(t testing.TB, tune ...func(*bounds)) *env {
	t.Helper()
	return newEnv(t, func(c *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.Work = true
		c.Work.Hashes = minWork
	}, append([]func(*bounds){manyChecks}, tune...)...)
}

// offer is what a client gets when it asks for work.
type offer struct {
	Type    string
	Captcha struct {
		Key     string
		Status  string
		WorkURL string `json:"work-url"`
		ImgURL  string `json:"img-url"`
		Work    *task
	}
}

func (e *env) askWork(opts ...opt) (offer, Response) {
	e.t.Helper()
	a := e.check(append([]opt{form("new", "1", "kind", "work", "format", "json")}, opts...)...)
	var o offer
	if err := json.Unmarshal(a.Body, &o); err != nil {
		e.t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return o, a
}

// toil does the work as documented.
func (w *task) toil(t testing.TB) string {
	t.Helper()
	seed, err := hex.DecodeString(w.Seed)
	if err != nil || len(seed) != 16 {
		t.Fatalf("seed %q", w.Seed)
	}
	var found []string
	for part := range w.Parts {
		for n := uint32(0); ; n++ {
			b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(seed[:16:16], uint32(part)), n)
			if sum := sha256.Sum256(b); binary.BigEndian.Uint32(sum[:]) < w.Below {
				found = append(found, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return strings.Join(found, ".")
}

func (e *env) answerWork(key, rep string, opts ...opt) Response {
	return e.check(append([]opt{form("key", key, "rep", rep, "format", "json")}, opts...)...)
}

func (e *env) formPageOf(t *testing.T) string {
	t.Helper()
	a := e.c.ChallengeForm(e.request("POST", "https://example.com/post", form("text", "x")))
	return string(a.Body)
}
