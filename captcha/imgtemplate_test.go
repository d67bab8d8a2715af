package captcha

import (
	"encoding/json"
	"strings"
	"testing"

	"antirobot/identity"
)

// TestImageTemplateIsServed: a service's own img-url template serves the picture, just as the gateway's default does.
func TestImageTemplateIsServed(t *testing.T) {
	for template, path := range map[string]string{
		"{base}/picture?k={key}":       "/picture",
		"{base}/a/b.png?v=1&key={key}": "/a/b.png",
	} {
		e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
			s.AJAX, s.ImgURLTemplate = "inline", template
		})
		a := e.c.ChallengeJSON(e.request("GET", "https://example.com/api"))
		var challenge struct {
			Captcha struct {
				ImgURL string `json:"img-url"`
			}
		}
		if err := json.Unmarshal(a.Body, &challenge); err != nil ||
			!strings.HasPrefix(challenge.Captcha.ImgURL, "https://example.com"+path+"?") {
			t.Fatalf("%v: %s", err, a.Body)
		}
		q := e.request("GET", challenge.Captcha.ImgURL)
		if got := e.svc.Route(q.View.Path); got != EndpointImage {
			t.Errorf("%s is endpoint %d", q.View.Path, got)
		}
		if img := e.c.Image(q); img.Status != 200 || img.Get("Content-Type") != "image/png" {
			t.Errorf("%s: status %d", template, img.Status)
		}
		if e.svc.Route([]byte("/captcha/image")) != EndpointImage {
			t.Error("the gateway's own path is gone")
		}
	}
	// So it is where another path of the service has the template, each with its own parameter.
	one := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.AJAX, s.ImgURLTemplate = "inline", "{base}/one?a={key}"
	})
	two, err := NewSettings(DefaultServiceConfig(), SettingsDeps{
		Service: "shop", Hosts: ownHosts{}, Cookies: one.svc.id, Pages: one.set, Pictures: []string{"", "{base}/two?b={key}", "{base}/one?a={key}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := one.c.ChallengeJSON(one.request("GET", "https://example.com/api"))
	_, key, _ := strings.Cut(string(a.Body), "/one?a=")
	key, _, _ = strings.Cut(key, `"`)
	q := one.request("GET", "https://example.com/one?a="+key)
	q.Service = two
	if img := one.c.Image(q); two.Route([]byte("/one")) != EndpointImage ||
		two.Route([]byte("/two")) != EndpointImage || img.Status != 200 {
		t.Errorf("another path's template: status %d", img.Status)
	}
	// It can't hide one of the gateway's own pages, and it does not exist for services that do not use it.
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.AJAX, s.ImgURLTemplate = "inline", "{base}/checkcaptcha?k={key}"
	})
	if got := e.svc.Route([]byte("/checkcaptcha")); got != EndpointCheck {
		t.Errorf("/checkcaptcha is endpoint %d", got)
	}
	e = newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) {
		s.ImgURLTemplate = "{base}/picture?k={key}"
	})
	if got := e.svc.Route([]byte("/picture")); got != EndpointNone {
		t.Errorf("/picture is endpoint %d", got)
	}
}
