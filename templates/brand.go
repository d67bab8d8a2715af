package templates

import (
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/mail"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
)

// Branding is a service's look on the gateway's pages. The zero value is the plain look.
type Branding struct {
	// Name of the site, shown at the top of the page and in the title; empty: none.
	Name string `mapstructure:"name"`
	// Logo is a file (PNG, JPEG, WebP, GIF or SVG, up to 16 KB) that is embedded in the page.
	Logo string `mapstructure:"logo"`
	// Accent is the colour of links and buttons, #rgb or #rrggbb; AccentDark the one for dark mode. OnAccent and
	// OnAccentDark are the colour of the text on a button, by default white and near black.
	Accent       string `mapstructure:"accent"`
	OnAccent     string `mapstructure:"on_accent"`
	AccentDark   string `mapstructure:"accent_dark"`
	OnAccentDark string `mapstructure:"on_accent_dark"`
	// Contact is how a blocked visitor reaches the site's owner: a mail address, or the URL of a page that the gateway
	// does not protect; empty: no link.
	Contact string `mapstructure:"contact"`
	// Texts replace texts of the catalogues, such as the heading or the help.
	Texts []Text `mapstructure:"texts"`
	// Templates is a directory whose files replace the gateway's for this service: pages/challenge.html,
	// pages/message.html, pages/layout.html, static/page.css, static/page.js, locales/TAG.yaml; empty: none.
	Templates string `mapstructure:"templates"`
}

var colour = regexp.MustCompile(`^#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})$`)

var logoTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
	".svg": "image/svg+xml",
}

// Limits on the content that is embedded in every page.
const (
	maxBrandName = 80
	maxLogoBytes = 16 << 10
	maxContact   = 254
)

// Validate returns all problems, each with its path below the section.
func (b *Branding) Validate() error {
	var errs []error
	if len(b.Name) > maxBrandName {
		errs = append(errs, fmt.Errorf("name: longer than %d bytes", maxBrandName))
	}
	if b.Logo != "" && logoTypes[strings.ToLower(path.Ext(b.Logo))] == "" {
		errs = append(errs, fmt.Errorf("logo: %q is no .png, .jpg, .webp, .gif or .svg", b.Logo))
	}
	if b.Contact != "" && !validContact(b.Contact) {
		errs = append(errs, fmt.Errorf("contact: %q is neither a mail address nor a URL with http or https", b.Contact))
	}
	for _, c := range [...]struct{ key, value string }{
		{"accent", b.Accent},
		{"on_accent", b.OnAccent},
		{"accent_dark", b.AccentDark},
		{"on_accent_dark", b.OnAccentDark},
	} {
		if c.value != "" && !colour.MatchString(c.value) {
			errs = append(errs, fmt.Errorf("%s: %q is not a colour like #1a56b0", c.key, c.value))
		}
	}
	return errors.Join(errs...)
}

// validContact reports whether a contact is a mail address, or a URL that a page may link to.
func validContact(contact string) bool {
	if len(contact) > maxContact {
		return false
	}
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return u.Host != ""
	}
	a, err := mail.ParseAddress(contact)
	return err == nil && a.Address == contact
}

// contactAbout is the link to the owner, about a request: a mail has its number as the subject.
func contactAbout(contact, requestID string) string {
	if strings.Contains(contact, "://") {
		return contact
	}
	return "mailto:" + contact + "?subject=" + url.PathEscape(requestID)
}

// Brand is a Branding prepared for the pages. It is immutable; the zero value has no styling at all.
type Brand struct {
	Name    string
	Logo    template.URL
	Contact string        // a mail address, or a URL; empty: none
	Head    template.HTML // the styles
	Script  template.HTML
	Moving  template.HTML // the script that makes a page with digits one with a moving picture; it comes before Script
	// the script with which a page notices that its question is over; it comes before Script and Steps
	Over  template.HTML
	Steps template.HTML // the script of a page that checks the browser
	Wait  template.HTML // the script of a page that says how long to wait

	csp, checkCSP, waitCSP, framedCSP string
}

// Brand prepares a branding; it reads the logo's file. frames are the origins whose pages may show the pages in a
// frame, in addition to that of the pages.
func (s *Set) Brand(cfg Branding, frames ...string) (*Brand, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Brand{Name: cfg.Name, Contact: cfg.Contact, Head: safe("<style>" + s.style + "</style>")}
	styles := sourceHash(s.style)
	if own := cfg.style(); own != "" {
		b.Head += safe("<style>" + own + "</style>")
		styles += " " + sourceHash(own)
	}
	b.Moving = safe("<script>" + s.moving + "</script>")
	b.Over = safe("<script>" + s.over + "</script>")
	over := sourceHash(s.over)
	scripts := sourceHash(s.moving) + " " + over
	if s.script != "" {
		b.Script = safe("<script>" + s.keys + "</script><script>" + s.script + "</script>")
		scripts += " " + sourceHash(s.keys) + " " + sourceHash(s.script)
	}
	if cfg.Logo != "" {
		raw, err := os.ReadFile(cfg.Logo)
		if err != nil {
			return nil, fmt.Errorf("logo: %w", err)
		}
		if len(raw) > maxLogoBytes {
			return nil, fmt.Errorf("logo: %s has more than %d bytes", cfg.Logo, maxLogoBytes)
		}
		b.Logo = template.URL("data:" + logoTypes[strings.ToLower(path.Ext(cfg.Logo))] + ";base64," +
			base64.StdEncoding.EncodeToString(raw))
	}
	// No form-action: browsers also apply it to every redirect after the form, and the page that the visitor returns to
	// may redirect to a login on another host.
	common := "default-src 'none'; img-src 'self' data:; style-src " + styles + "; base-uri 'none'; frame-ancestors "
	policy := func(scripts string) string {
		return common + strings.Join(append([]string{"'self'"}, frames...), " ") +
			"; media-src 'self'; connect-src 'self'; script-src " + scripts
	}
	b.framedCSP = common + "*"
	b.Steps = safe("<script>" + s.steps + "</script>")
	b.Wait = safe("<script>" + s.wait + "</script>")
	b.csp, b.checkCSP, b.waitCSP = policy(scripts), policy(over+" "+sourceHash(s.steps)), policy(sourceHash(s.wait))
	return b, nil
}

// Check reports all problems of a branding and of its files, each with its path below the section.
func (s *Set) Check(b *Branding) error {
	own, err := s.For(b)
	if err != nil {
		return err
	}
	_, err = own.Brand(*b)
	return err
}

// CSP is the Content-Security-Policy that the pages need.
func (b *Brand) CSP() string { return b.csp }

// CheckCSP is the policy of a page that checks the browser.
func (b *Brand) CheckCSP() string { return b.checkCSP }

// WaitCSP is the policy of a page that says how long to wait.
func (b *Brand) WaitCSP() string { return b.waitCSP }

// FramedCSP is the policy of a page that any site may show in a frame: it only leads out of it.
func (b *Brand) FramedCSP() string { return b.framedCSP }

// WorkCSP is the policy of a challenge page that offers work: it may start the Worker that does it.
func (b *Brand) WorkCSP() string { return b.csp + "; worker-src 'self'" }

// style returns the rules for the colours; they were validated.
func (b *Branding) style() string {
	rule := func(accent, on string) string {
		var s string
		if accent != "" {
			s += "--accent:" + accent + ";"
		}
		if on != "" {
			s += "--on-accent:" + on
		}
		return strings.TrimSuffix(s, ";")
	}
	var out string
	if light := rule(b.Accent, b.OnAccent); light != "" {
		out = ":root{" + light + "}"
	}
	dark := rule(b.AccentDark, b.OnAccentDark)
	if dark == "" && out != "" {
		dark = "--accent:#8ab6f9;--on-accent:#0b1a2e" // a light theme's accent is seldom readable on dark
	}
	if dark != "" {
		out += "@media (prefers-color-scheme:dark){:root{" + dark + "}}"
	}
	return out
}
