package firewall

import (
	"context"

	"antirobot/verdict/rules"
)

// Formulas gives rules the tree models. The zero value has none.
type Formulas struct{}

// Formula is rules.Formulas.
func (Formulas) Formula(_ context.Context, name string, _ *rules.Run) (float64, error) {
	return 0, rules.Faultf(rules.CodeProperty, "there is no formula %.64q", name)
}
