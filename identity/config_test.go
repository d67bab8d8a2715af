package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"antirobot/request"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := DefaultServiceConfig().Validate(); err != nil {
		t.Error(err)
	}
}

// complains checks that an error names all the keys, each at the start of a line.
func complains(t *testing.T, err error, keys ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(keys) {
		t.Errorf("%d complaints, want %d:\n%v", len(lines), len(keys), err)
	}
	for i, key := range keys {
		if i < len(lines) && !strings.HasPrefix(lines[i], key) {
			t.Errorf("complaint %d is %q, want %s", i, lines[i], key)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	complains(t, Config{
		TrustedProxies: []string{
			"10.0.0.0/8", "x", "10.0.0.0/99", "fe80::1%eth0", "::ffff:0:0/90",
		}, ClientAddressHeader: "X Y",
		IPerHour: -1,
	}.Validate(), "trusted_proxies[1]: ", "trusted_proxies[2]: ", "trusted_proxies[3]: ", "trusted_proxies[4]: ", "client_address_header: ",
		"i_per_hour: ")
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("New takes a bad config")
	}
}

func TestServiceConfigValidate(t *testing.T) {
	complains(
		t,
		ServiceConfig{
			Domain: "com", SpravkaCookie: "", ICookie: "a b", IMinAge: -1, Fuid: "maybe", FuidCookie: "L",
			Login: LoginConfig{
				Cookie: "L", Algorithm: "none", Issuer: "x", MaxAge: -1, Keys: []KeyRef{{Key: "a", KeyEnv: "b"}},
			},
			ServiceCookie: ServiceCookieConfig{MinAge: -1, Keys: []KeyRef{{}}},
		}.Validate(),
		"domain: ",
		"spravka_cookie: ",
		"i_cookie: ",
		"login.cookie: ",
		"i_min_age: ",
		"fuid: ",
		"login.algorithm: ",
		"login.max_age: ",
		"login.keys[0]: ",
		"service_cookie.name: ",
		"service_cookie.min_age: ",
		"service_cookie.keys[0]: ",
	)
	for domain, ok := range map[string]bool{
		"": true, "example.com": true, ".example.com": true, "Example.Co.UK": true, "xn--e1afmkfd.xn--p1ai": true,
		"localhost": false, "10.0.0.1": false, "2001:db8::1": false, "example.com/": false, "a..b": false, "-a.com": false,
		"exa mple.com": false, "example.com; Secure": false, "пример.рф": false, "*.example.com": false,
	} {
		c := DefaultServiceConfig()
		c.Domain = domain
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("domain %q: %v", domain, err)
		}
	}
}

// TestNewServiceReadsKeys: problems that only show on reading are all reported at once, without a secret in the text.
func TestNewServiceReadsKeys(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("topsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := DefaultServiceConfig()
	c.Login.Algorithm = algHMAC
	c.Login.Keys = []KeyRef{{KeyFile: "/no/such/file"}, {KeyFile: junk}, {KeyEnv: "ANTIROBOT_NO_SUCH"}}
	c.ServiceCookie.Name, c.ServiceCookie.Keys = "sid", []KeyRef{{Key: "topsecret"}}
	_, err := NewCookieSettings(c)
	complains(
		t, err, "login.keys[0].key_file: ", "login.keys[1]: ", "login.keys[2].key_env: ", "service_cookie.keys[0]: ",
	)
	for _, alg := range []string{algEdDSA, algRS256} {
		c.Login.Algorithm, c.Login.Keys = alg, []KeyRef{{KeyFile: junk}}
		c.ServiceCookie = ServiceCookieConfig{}
		_, err2 := NewCookieSettings(c)
		complains(t, err2, "login.keys[0]: ")
		err = fmt.Errorf("%w %w", err, err2)
	}
	if printed := err.Error() + fmt.Sprintf("%v %+v %#v", c, c, KeyRef{Key: "topsecret"}); strings.Contains(
		printed, "topsecret",
	) {
		t.Errorf("a secret is printed: %s", printed)
	}
}

func TestCookieDomainProblems(t *testing.T) {
	c := DefaultServiceConfig()
	f := func(host string, want int) {
		t.Helper()
		if got := c.CookieDomainProblems(host); len(got) != want {
			t.Errorf("%s: %q", host, got)
		}
	}
	f("www.example.org", 0) // no domain: each host has its own cookies
	c.Domain = "example.com"
	f("example.com", 0)
	f("WWW.example.com", 0)
	f("*.example.com", 0)
	f("example.org", 1)
	f("badexample.com", 1)
	c.ServiceCookie.Name = "sid"
	f("example.org", 0)
}

// TestConfigKeys: every field can be set from a config file, by the name that Validate uses in its errors.
func TestConfigKeys(t *testing.T) {
	var c ServiceConfig
	d, err := mapstructure.NewDecoder(
		&mapstructure.DecoderConfig{
			Result: &c, ErrorUnused: true, DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(map[string]any{
		"domain": "example.com", "spravka_cookie": "s", "i_cookie": "_i", "i_min_age": "1h", "fuid": "off", "fuid_cookie": "f",
		"login": map[string]any{
			"cookie": "l", "algorithm": "HS256", "issuer": "i", "audience": "a", "max_age": "2h",
			"keys": []map[string]any{{"key": testKey}, {"key_file": "f"}, {"key_env": "e"}},
		},
		"service_cookie": map[string]any{"name": "n", "min_age": "3h", "keys": []map[string]any{{"key": "k"}}},
	}); err != nil {
		t.Fatal(err)
	}
	want := ServiceConfig{
		Domain: "example.com", SpravkaCookie: "s", ICookie: "_i", IMinAge: time.Hour, Fuid: "off", FuidCookie: "f",
		Login: LoginConfig{
			Cookie: "l", Algorithm: "HS256", Issuer: "i", Audience: "a", MaxAge: 2 * time.Hour,
			Keys: []KeyRef{{Key: testKey}, {KeyFile: "f"}, {KeyEnv: "e"}},
		},
		ServiceCookie: ServiceCookieConfig{Name: "n", MinAge: 3 * time.Hour, Keys: []KeyRef{{Key: "k"}}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%#v", c)
	}
}

// TestReload: new proxies apply at once, a bad config changes nothing.
func TestReload(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	v := page(start, "10.0.0.1")
	v.Fields = append(v.Fields, request.Field{Name: []byte("X-Forwarded-For"), Value: []byte("198.51.100.1")})
	addr := func() string {
		var id Identity
		b.Resolve(&id, v, s)
		return id.Addr.String()
	}
	c := DefaultConfig()
	c.TrustedProxies = []string{"10.0.0.0/8"}
	if got := addr(); got != "10.0.0.1" {
		t.Errorf("before: %s", got)
	}
	if err := reload(b.Resolver, c); err != nil || addr() != "198.51.100.1" {
		t.Errorf("after: %s, %v", addr(), err)
	}
	if err := reload(b.Resolver, Config{}); err == nil || addr() != "198.51.100.1" {
		t.Errorf("after a bad one: %s, %v", addr(), err)
	}
}

func TestMetrics(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	b.visit(t, s, start, "203.0.113.7", b.pass(start, nil))
	b.visit(t, s, start, "203.0.113.7", fuid(start.Add(-9*day), "x"))
	var out strings.Builder
	b.set.WritePrometheus(&out)
	for _, want := range []string{"antirobot_identity_cache_entries 1\n", "antirobot_identity_fuids 1\n", `antirobot_identity_i_minted{rate="within"} 2` + "\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
