package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"antirobot/console"
)

// signIn reads the metadata of the console's OpenID Connect provider.
func (d *doctor) signIn(ctx context.Context) {
	c := &d.cfg.Admin.OIDC
	if c.Issuer == "" {
		return
	}
	const what, patience = "sign-in", 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, scopes, err := console.Discover(ctx, c.Issuer)
	switch {
	case err != nil:
		says, _, _ := strings.Cut(err.Error(), "\n") // a page may be quoted
		d.say(bad, what, "mend admin.oidc.issuer, or the provider; tokens work meanwhile",
			"nobody can sign in at the provider: %s", says)
	case name != c.Issuer:
		d.say(bad, what, fmt.Sprintf("write admin.oidc.issuer: %s", name),
			"nobody can sign in: the provider at %s calls itself %s", c.Issuer, name)
	case slices.Contains(scopes, c.RoleClaim) && !slices.Contains(c.Scopes, c.RoleClaim):
		d.say(look, what, fmt.Sprintf("add %s to admin.oidc.scopes, if nobody has a role", c.RoleClaim),
			"the provider may tell %s, which gives roles, only to who asks for the scope of that name", c.RoleClaim)
	default:
		d.say(healthy, what, "", "the provider %s answers", c.Issuer)
	}
}
