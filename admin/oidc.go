package admin

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// OIDCConfig lets people sign in to the console at a provider of OpenID Connect. An empty Issuer: they can't.
type OIDCConfig struct {
	Issuer   string `mapstructure:"issuer"` // its URL; https, but on loopback
	ClientID string `mapstructure:"client_id"`
	// SecretFile holds the client's secret; empty: a public client, which has PKCE alone.
	SecretFile string `mapstructure:"client_secret_file"`
	// RoleClaim has the values that Roles maps. Dots lead into claims of claims.
	RoleClaim string    `mapstructure:"role_claim"`
	Roles     OIDCRoles `mapstructure:"roles"`
}

// OIDCRoles are the values of the claim that give a role; the highest one holds.
type OIDCRoles struct {
	Viewer   []string `mapstructure:"viewer"`
	Operator []string `mapstructure:"operator"`
	Admin    []string `mapstructure:"admin"`
}

func (c *OIDCConfig) validate() error {
	if c.Issuer == "" {
		return nil
	}
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("oidc.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		bad("issuer", "%q is not a URL such as https://id.example", c.Issuer)
	}
	if c.ClientID == "" {
		bad("client_id", "it is missing; the provider gives it out")
	}
	if c.RoleClaim == "" {
		bad("role_claim", "it is missing, such as groups")
	}
	if len(c.Roles.Viewer)+len(c.Roles.Operator)+len(c.Roles.Admin) == 0 {
		bad("roles", "nobody has a role; say which values of %s make an admin, such as roles: {admin: [ops]}",
			c.RoleClaim)
	}
	return errors.Join(errs...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// oidcPrefix stands before the names that a provider gives, so that none is the name of a token.
const oidcPrefix = "oidc:"

// The claims of an address and whether the provider knows that it is the person's own (OpenID Connect Core, 5.1).
const (
	claimEmail    = "email"
	claimVerified = "email_verified"
)

// CallerOf returns the caller that the claims of a provider describe; false: they give no role. An address that the
// provider says is not verified gives neither a name nor a role: anybody may have written it there. Providers that say
// nothing of it are believed.
func (c *OIDCConfig) CallerOf(claims map[string]any) (who Caller, ok bool) {
	if v := claims[claimVerified]; v == false || v == "false" { // some say it in a text
		claims = maps.Clone(claims)
		delete(claims, claimEmail)
	}
	name := nameOf(claims)
	if name == "" {
		name, _ = claims["sub"].(string)
	}
	if name == "" || len(name) > 200 || checkReason(name) != nil {
		return who, false
	}
	who.Name = oidcPrefix + name
	values := textsOf(claimOf(claims, c.RoleClaim))
	for i, names := range [][]string{c.Roles.Viewer, c.Roles.Operator, c.Roles.Admin} {
		if slices.ContainsFunc(values, func(v string) bool { return slices.Contains(names, v) }) {
			who.Role = Viewer + Role(i) //nolint:gosec // a place in a list of three
		}
	}
	return who, who.Role >= Viewer
}

// nameOf returns the name of a person for the journal.
func nameOf(claims map[string]any) string {
	for _, claim := range [...]string{claimEmail, "preferred_username"} {
		if name, ok := claims[claim].(string); ok && name != "" {
			return name
		}
	}
	return ""
}

// WhyNoRole explains for the log why claims give no role.
func (c *OIDCConfig) WhyNoRole(claims map[string]any) string {
	v := claimOf(claims, c.RoleClaim)
	if v == nil {
		names := slices.Sorted(maps.Keys(claims))
		return fmt.Sprintf("the provider says nothing of %s, only of %.500s: does "+
			"admin.oidc.role_claim name another?", c.RoleClaim, strings.Join(names, ", "))
	}
	if values := textsOf(v); len(values) > 0 {
		return fmt.Sprintf("%s is %.500s", c.RoleClaim, strings.Join(values, ", "))
	}
	return c.RoleClaim + " is empty"
}

// textsOf returns the texts of a claim that is one, or a list of them.
func textsOf(claim any) (texts []string) {
	switch v := claim.(type) {
	case string:
		texts = []string{v}
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok {
				texts = append(texts, s)
			}
		}
	}
	return texts
}

// Complete reports whether claims have a name and a role claim, and for an address whether it is verified.
func (c *OIDCConfig) Complete(claims map[string]any) bool {
	if c.RoleClaim == claimEmail && claims[claimVerified] == nil {
		return false
	}
	return nameOf(claims) != "" && claimOf(claims, c.RoleClaim) != nil
}

// claimOf returns a claim by its name, or by a path with dots to one in another.
func claimOf(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	outer, inner, ok := strings.Cut(path, ".")
	if next, isMap := claims[outer].(map[string]any); ok && isMap {
		return claimOf(next, inner)
	}
	return nil
}
