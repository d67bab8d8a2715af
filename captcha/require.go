package captcha

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

// A service can demand a step: a field of its response names the step that the visitor has to pass. The response is
// withheld, the visitor is challenged, and the request comes again with a field that says what was passed and when. A
// visitor who has just passed the step is not challenged again: then the response stands.

// The fields between gateway and service.
const (
	RequireField = "X-Antirobot-Require" // in the service's answer
	PassedField  = "X-Antirobot-Passed"  // in the request that the service gets
)

// justPassed is how long a passed step satisfies the service.
const justPassed = time.Minute

// ReadRequire reads the value of RequireField: press, digits or dynamic.
func ReadRequire(value []byte) (Step, bool) {
	s, ok := parseStep(string(value))
	return s, ok && s >= stepPress
}

// Requires reports whether the service's responses may demand a step.
func (s *Settings) Requires() bool { return s.require }

// LastPass returns the latest of the passes that the visitor earned in this kind of browser, or nil.
func LastPass(passes []spravka.Pass, v *request.View) *spravka.Pass {
	var last *spravka.Pass
	for i := range passes {
		p := &passes[i]
		if p.Earned && p.Step != 0 && (last == nil || p.Born > last.Born) {
			last = p
		}
	}
	if last == nil || last.Agent != 0 && last.Agent != agentOfView(v) {
		return nil
	}
	return last
}

// Satisfies reports whether a pass was earned just now by step or a step that stands in for it.
func (c *Captcha) Satisfies(p *spravka.Pass, step Step) bool { return satisfies(p, step, c.now()) }

func satisfies(p *spravka.Pass, step Step, now time.Time) bool {
	return p != nil && Step(max(p.Step, p.Asked)) >= step && now.Unix()-p.Born <= int64(justPassed/time.Second)
}

// AppendPassed appends the service's information about a pass: digits;at=1795366800;id=0123456789abcdef, and
// for=dynamic if another step had been required. The id is the same whenever the pass is shown, and reveals nothing
// else.
func AppendPassed(dst []byte, p *spravka.Pass) []byte {
	dst = append(dst, Step(p.Step).String()...)
	dst = strconv.AppendInt(append(dst, ";at="...), p.Born, 10)
	sum := sha256.Sum256(append([]byte("passed\x00"), p.ID[:]...))
	dst = hex.AppendEncode(append(dst, ";id="...), sum[:8])
	if p.Asked != p.Step && p.Asked != 0 {
		dst = append(append(dst, ";for="...), Step(p.Asked).String()...)
	}
	return dst
}
