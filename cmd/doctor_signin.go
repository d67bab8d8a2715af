package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// signIn asks the provider at which people sign in to the console what it says of itself (OpenID Connect Discovery, 4). It reads that
// itself: the console's library gives nothing of a provider that has another name than the configuration says, and the name is what
// is to be written there.
func (d *doctor) signIn(ctx context.Context) {
	c := &d.cfg.Admin.OIDC
	if c.Issuer == "" {
		return
	}
	const what, most = "sign-in", 1 << 20
	where := strings.TrimSuffix(c.Issuer, "/") + "/.well-known/openid-configuration"
	var said struct {
		Issuer string   `json:"issuer"`
		Scopes []string `json:"scopes_supported"`
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return // the configuration was checked
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}, Timeout: 5 * time.Second}
	res, err := client.Do(req)
	if err == nil {
		if res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s answers %s", where, res.Status)
		} else if err = json.NewDecoder(io.LimitReader(res.Body, most)).Decode(&said); err != nil {
			err = fmt.Errorf("%s is no description of a provider: %w", where, err)
		}
		res.Body.Close()
	}
	asked := func(scope string) bool { return slices.Contains(c.Scopes, scope) }
	switch {
	case err != nil:
		d.say(bad, what, "mend admin.oidc.issuer, or the provider; tokens work meanwhile", "nobody can sign in at the provider: %v", err)
	case said.Issuer != c.Issuer:
		d.say(bad, what, fmt.Sprintf("write admin.oidc.issuer: %s", said.Issuer), "nobody can sign in: the provider at %s calls itself %s", c.Issuer, said.Issuer)
	case slices.Contains(said.Scopes, c.RoleClaim) && !asked(c.RoleClaim):
		d.say(look, what, fmt.Sprintf("add %s to admin.oidc.scopes, if nobody has a role", c.RoleClaim),
			"the provider may tell %s, which gives roles, only to who asks for the scope of that name", c.RoleClaim)
	default:
		d.say(healthy, what, "", "the provider %s answers", c.Issuer)
	}
}
