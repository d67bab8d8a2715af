package admin

import (
	"math"
	"time"

	"antirobot/verdict"
)

// AttackState is the switch "under attack" as the API shows it.
type AttackState struct {
	On    bool      `json:"under-attack"`
	Until time.Time `json:"until,omitzero"`
	// Share of the visitors whom the site does not know that is asked at present, 0 to 1: it grows and falls smoothly.
	Share  float64 `json:"share"`
	Easing bool    `json:"easing,omitempty"` // it falls until then
}

func (s *gatewayCalls) attackState(*call) (any, error) {
	a := s.deps.Attack.UnderAttack()
	return AttackState{On: !a.Until.IsZero(), Until: a.Until.Truncate(time.Second), Share: share(a.Share), Easing: a.Easing}, nil
}

func share(x float64) float64 { return math.Round(x*100) / 100 }

// attack switches on, for the time that is given or as long as the configuration says.
func (s *gatewayCalls) attack(c *call) (any, error) {
	var in struct {
		For string `json:"for"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	var until time.Time
	if in.For != "" {
		d, err := ttlWithin(in.For, min(maxTTL, verdict.MaxAttack))
		if err != nil {
			return nil, badField("for", "%v", err)
		}
		until = s.now().Add(d)
	}
	return s.turn(c, until, true)
}

func (s *gatewayCalls) attackOver(c *call) (any, error) { return s.turn(c, s.now(), false) }

func (s *gatewayCalls) turn(c *call, until time.Time, on bool) (any, error) {
	over, err := s.deps.Attack.Attack(c.work, until)
	if err != nil {
		return nil, changed(err, "the switch")
	}
	s.log.Warn().Bool("on", on).Time("until", over).Msg("under attack, over the api")
	return s.attackState(c)
}
