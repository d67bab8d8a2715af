package admin

import "testing"

// TestVerifiedAddress: an address that the provider says is not verified gives neither a role nor a name; where it says nothing of it, it
// is asked once more, and then believed.
func TestVerifiedAddress(t *testing.T) {
	byAddress := OIDCConfig{RoleClaim: "email", Roles: OIDCRoles{Admin: []string{"olga@example.com"}}}
	byGroup := OIDCConfig{RoleClaim: "groups", Roles: OIDCRoles{Viewer: []string{"staff"}}}
	for _, tt := range []struct {
		cfg      *OIDCConfig
		verified any // nil: not said
		name     string
		role     Role // 0: none
		complete bool
	}{
		{&byAddress, true, "oidc:olga@example.com", Admin, true},
		{&byAddress, nil, "oidc:olga@example.com", Admin, false},
		{&byAddress, false, "oidc:7", 0, true},
		{&byAddress, "false", "oidc:7", 0, true},
		{&byGroup, false, "oidc:7", Viewer, true},
		{&byGroup, nil, "oidc:olga@example.com", Viewer, true},
	} {
		claims := map[string]any{"sub": "7", "email": "olga@example.com", "groups": "staff"}
		if tt.verified != nil {
			claims["email_verified"] = tt.verified
		}
		who, ok := tt.cfg.CallerOf(claims)
		if who.Name != tt.name || who.Role != tt.role || ok != (tt.role > 0) || tt.cfg.Complete(claims) != tt.complete || claims["email"] == nil {
			t.Errorf("by %s, verified %v: %+v %v", tt.cfg.RoleClaim, tt.verified, who, ok)
		}
	}
}
