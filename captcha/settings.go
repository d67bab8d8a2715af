package captcha

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"antirobot/captcha/location"
	"antirobot/identity"
	"antirobot/problem"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// ServiceConfig is the configuration of one service's challenges.
type ServiceConfig struct {
	// Prefix precedes the paths of the gateway's own pages, such as /_check; empty: none.
	Prefix string `mapstructure:"prefix"`
	// RetpathHosts may be named by X-Retpath-Y in addition to the service's own: example.org, example.org:8443,
	// *.example.org.
	RetpathHosts []string `mapstructure:"retpath_hosts"`
	// AJAX is redirect (the front end goes to captcha-page) or inline (it draws the picture itself). Both get all
	// fields; img_url_template is for inline only.
	AJAX string `mapstructure:"ajax"`
	// AJAXStatus is the status of a JSON challenge: 200, 403 or 429.
	AJAXStatus int `mapstructure:"ajax_status"`
	// ImgURLTemplate is the img-url of inline services, with {base} and {key}; empty:
	// {base}PREFIX/captcha/image?key={key}. If the key is a query parameter in it, the gateway serves the path.
	ImgURLTemplate string `mapstructure:"img_url_template"`
	// CORSOrigins may read JSON challenges, as may the service's own: https://app.example.org, https://*.example.org.
	CORSOrigins []string `mapstructure:"cors_origins"`
	// CrossSite is for a service whose scripts run on another site's pages (cors_origins): the pass is set with
	// SameSite=None and Partitioned, so that browsers keep it separately for each site, and only over https.
	CrossSite bool `mapstructure:"cross_site"`
	// Work offers a puzzle-free way: work by the browser. Login pages need one (WCAG 2.2, 3.3.8).
	Work bool `mapstructure:"work"`
	// Steps are the steps for robots and others.
	Steps StepsConfig `mapstructure:"steps"`
	// Require lets the service demand steps (X-Antirobot-Require).
	Require bool `mapstructure:"require"`
	// Bind binds passes to a key pair of the browser, if it has one (docs/adr/0031-browser-keys.md).
	Bind bool `mapstructure:"bind"`
	// Evidence serves a script that reports page telemetry (docs/detection.md).
	Evidence bool `mapstructure:"evidence"`
	// EvidenceInsert inserts its tag into the service's pages.
	EvidenceInsert bool `mapstructure:"evidence_insert"`
	// EvidencePolicy treats pages whose Content-Security-Policy forbids the script: keep (nothing is inserted) or
	// extend (the policy is changed to permit it).
	EvidencePolicy string `mapstructure:"evidence_policy"`
	// CompatYandex adds X-Yandex-Captcha.
	CompatYandex bool `mapstructure:"compat_yandex"`
	// Partners are the XML partners.
	Partners []PartnerConfig `mapstructure:"partners"`
	// PartnerParam is the query parameter that holds a partner's key.
	PartnerParam string `mapstructure:"partner_param"`
	// OnStoreFailure says whether a right answer counts while the store is unavailable: open (yes, by this node's
	// memory alone) or closed (no: 503).
	OnStoreFailure string `mapstructure:"on_store_failure"`
	// Branding is the look of the pages.
	Branding templates.Branding `mapstructure:"branding"`
}

// PartnerConfig is one XML partner: recognized by its key in the query, or by its addresses.
type PartnerConfig struct {
	Name      string   `mapstructure:"name"`
	Key       string   `mapstructure:"key"`
	Addresses []string `mapstructure:"addresses"`
}

// DefaultServiceConfig returns the defaults.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{
		AJAX: "redirect", AJAXStatus: 200, PartnerParam: "key", OnStoreFailure: "open", Steps: defaultSteps(),
		Require: true, Bind: true, EvidencePolicy: "keep",
	}
}

// Validate returns all problems, each with its path below the section.
func (c *ServiceConfig) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Prefix != "" && !validPrefix(c.Prefix) {
		bad("prefix: %q does not look like /path", c.Prefix)
	}
	for i, h := range c.RetpathHosts {
		if _, err := location.ParseHost(h); err != nil {
			bad("retpath_hosts[%d]: %w", i, err)
		}
	}
	if c.AJAX != "redirect" && c.AJAX != "inline" {
		bad("ajax: %q is neither redirect nor inline", c.AJAX)
	}
	if !slices.Contains([]int{200, 403, 429}, c.AJAXStatus) {
		bad("ajax_status: %d is not 200, 403 or 429", c.AJAXStatus)
	}
	if t := c.ImgURLTemplate; t != "" && (!strings.Contains(t, "{key}") || !strings.HasPrefix(t, "{base}/")) {
		bad("img_url_template: %q must begin with {base}/ and contain {key}", t)
	}
	for i, o := range c.CORSOrigins {
		if _, err := location.ParseOrigin(o); err != nil {
			bad("cors_origins[%d]: %w", i, err)
		}
	}
	if c.CrossSite && len(c.CORSOrigins) == 0 {
		bad("cross_site: cors_origins names no pages that could use it")
	}
	errs = append(errs, c.validatePartners()...)
	if !spravka.ValidCookieName(c.PartnerParam) {
		bad("partner_param: %q is not a name", c.PartnerParam)
	}
	if c.EvidenceInsert && !c.Evidence {
		bad("evidence_insert: without evidence: true there is no script to put into pages")
	}
	if c.EvidencePolicy != "keep" && c.EvidencePolicy != "extend" {
		bad("evidence_policy: %q is neither keep nor extend", c.EvidencePolicy)
	}
	if c.OnStoreFailure != "open" && c.OnStoreFailure != "closed" {
		bad("on_store_failure: %q is neither open nor closed", c.OnStoreFailure)
	}
	errs = append(errs, problem.At("steps", c.Steps.Validate()), problem.At("branding", c.Branding.Validate()))
	return errors.Join(errs...)
}

const minPartnerKey = 16

func (c *ServiceConfig) validatePartners() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	for i, p := range c.Partners {
		at := fmt.Sprintf("partners[%d]", i)
		if p.Name == "" || names[p.Name] {
			bad("%s.name: %q is empty or taken", at, p.Name)
		}
		names[p.Name] = true
		if p.Key == "" && len(p.Addresses) == 0 {
			bad("%s: neither a key nor addresses", at)
		}
		if p.Key != "" && len(p.Key) < minPartnerKey {
			bad("%s.key: shorter than %d characters", at, minPartnerKey)
		}
		for j, a := range p.Addresses {
			if _, err := request.ParseNetwork(a); err != nil {
				bad("%s.addresses[%d]: %w", at, j, err)
			}
		}
	}
	return errs
}

func validPrefix(p string) bool {
	if p[0] != '/' || strings.HasSuffix(p, "/") || strings.Contains(p, "//") {
		return false
	}
	for _, c := range []byte(p) {
		if c != '/' && c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') &&
			(c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// Settings is a ServiceConfig prepared for use. It is immutable and safe for concurrent use.
type Settings struct {
	name         string
	prefix       string
	hosts        HostOwner
	retpathHosts []location.Host
	ajaxStatus   int
	imgURL       string
	imgParams    []string // the query parameters with the key, of the templates whose paths are served
	origins      []location.Origin
	sameSite     string // of the pass's cookie
	work         bool
	ladder       stepRules
	require      bool
	bind         bool
	yandex       bool
	partners     []Partner
	partnerParam string
	closed       bool
	set          *templates.Set
	brand        *templates.Brand
	id           *identity.CookieSettings
	cookie       string // the pass's
	paths        map[string]Endpoint
	inserted     string // the path of the script whose tag is put into pages; empty: none
	extends      bool   // into those too whose policy has to be changed for it
}

// Partner is an XML partner that was recognised.
type Partner struct {
	Name     string
	key      string
	networks []netip.Prefix
}

// HostOwner knows the hosts of a service.
type HostOwner interface {
	// OwnsHost reports whether a host, in lower case and without port, is one of the service's.
	OwnsHost(host string) bool
}

// SettingsDeps are the dependencies of a service's Settings. All but Pictures are required.
type SettingsDeps struct {
	Service string // its name
	Hosts   HostOwner
	Cookies *identity.CookieSettings // the name and scope of the pass's cookie
	Pages   *templates.Set
	// Pictures are the img_url_templates of the service and its paths, whose paths the gateway serves.
	Pictures []string
}

// NewSettings prepares the settings of a service.
func NewSettings(cfg ServiceConfig, d SettingsDeps) (*Settings, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	own, err := d.Pages.For(&cfg.Branding)
	if err != nil {
		return nil, problem.At("branding", err)
	}
	brand, err := own.Brand(cfg.Branding, cfg.CORSOrigins...)
	if err != nil {
		return nil, problem.At("branding", err)
	}
	s := &Settings{
		name: d.Service, prefix: cfg.Prefix, hosts: d.Hosts, ajaxStatus: cfg.AJAXStatus,
		work: cfg.Work, ladder: newStepRules(cfg.Steps), require: cfg.Require, bind: cfg.Bind, yandex: cfg.CompatYandex,
		partnerParam: cfg.PartnerParam, closed: cfg.OnStoreFailure == "closed", brand: brand,
		id: d.Cookies, cookie: d.Cookies.SpravkaCookie(), set: own,
		imgURL: "{base}" + cfg.Prefix + "/captcha/image?key={key}",
	}
	s.sameSite = "Lax"
	if cfg.CrossSite {
		s.sameSite = "None; Partitioned"
	}
	if t := cfg.Picture(); t != "" {
		s.imgURL = t
	}
	for _, h := range cfg.RetpathHosts {
		rule, _ := location.ParseHost(h) // validated
		s.retpathHosts = append(s.retpathHosts, rule)
	}
	for _, o := range cfg.CORSOrigins {
		rule, _ := location.ParseOrigin(o) // validated
		s.origins = append(s.origins, rule)
	}
	for _, p := range cfg.Partners {
		partner := Partner{Name: p.Name, key: p.Key}
		for _, a := range p.Addresses {
			n, _ := request.ParseNetwork(a) // validated
			partner.networks = append(partner.networks, n)
		}
		s.partners = append(s.partners, partner)
	}
	s.paths = map[string]Endpoint{}
	for _, template := range d.Pictures {
		s.serveTemplate(template)
	}
	for path, e := range map[string]Endpoint{
		s.prefix + "/showcaptcha":   EndpointPage,
		s.prefix + "/checkcaptcha":  EndpointCheck,
		s.prefix + "/xcheckcaptcha": EndpointXCheck,
		s.prefix + "/captcha/image": EndpointImage,
		s.prefix + "/captcha/audio": EndpointAudio,
	} {
		s.paths[path] = e
	}
	if cfg.EvidenceInsert {
		s.inserted, s.extends = s.prefix+"/captcha/"+evidenceScript, cfg.EvidencePolicy == "extend"
	}
	if cfg.Evidence {
		s.paths[s.prefix+"/captcha/evidence"] = EndpointEvidence
		s.paths[s.prefix+"/captcha/"+evidenceScript] = EndpointEvidenceScript
	}
	return s, nil
}

// Picture names the picture of a challenge inside a page; empty: challenges are not shown inside pages.
func (c *ServiceConfig) Picture() string {
	if c.AJAX != "inline" {
		return ""
	}
	return c.ImgURLTemplate
}

// serveTemplate makes the gateway serve the path of an img_url_template whose key is a query parameter.
func (s *Settings) serveTemplate(template string) {
	path, query, ok := strings.Cut(strings.TrimPrefix(template, "{base}"), "?")
	if !ok {
		return
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, isKey := strings.CutSuffix(pair, "={key}"); isKey {
			s.paths[path] = EndpointImage
			if !slices.Contains(s.imgParams, name) {
				s.imgParams = append(s.imgParams, name)
			}
		}
	}
}

// OwnsPage reports whether a URL, from Origin or Referer, is a page whose scripts may read the service's responses:
// on host, on another of the service's, or of an origin in cors_origins.
func (s *Settings) OwnsPage(page, host []byte) bool {
	u, ok := location.Parse(string(page))
	if !ok {
		return false
	}
	if u.Host == string(host) || s.hosts.OwnsHost(u.Host) {
		return true
	}
	origin := u.Origin()
	return slices.ContainsFunc(s.origins, func(o location.Origin) bool { return o.Fits(origin) })
}

// FindPartner returns the XML partner that sends a request, by the key in its query or by addr, its address after
// trusted proxies; nil if there is none.
func (s *Settings) FindPartner(v *request.View, addr netip.Addr) *Partner {
	if len(s.partners) == 0 {
		return nil
	}
	key := queryValue(v.Query, s.partnerParam)
	for i := range s.partners {
		p := &s.partners[i]
		if p.key != "" && sameSecret(p.key, key) {
			return p
		}
	}
	for i := range s.partners {
		for _, n := range s.partners[i].networks {
			if n.Contains(addr) {
				return &s.partners[i]
			}
		}
	}
	return nil
}

// demandQuery is the query text that always gets a captcha from an XML interface: partners test their clients with it.
const demandQuery = "e48a2b93de1740f48f6de0d45dc4192a"

// Demands reports whether a request to an XML interface asks for the captcha itself. partner may be nil.
func (s *Settings) Demands(v *request.View, partner *Partner) bool {
	return queryValue(v.Query, "query") == demandQuery ||
		partner != nil && queryValue(v.Query, "showmecaptcha") == "yes"
}

// Endpoint is one of the gateway's own addresses.
type Endpoint uint8

// The endpoints.
const (
	EndpointNone Endpoint = iota
	EndpointPage
	EndpointCheck
	EndpointXCheck
	EndpointImage
	EndpointAudio
	EndpointStatic // anything else below /captcha/
	EndpointEvidence
	EndpointEvidenceScript
)

// Route returns which of the gateway's own addresses a path is. Only the exact spelling counts: any other belongs to
// the service.
func (s *Settings) Route(path []byte) Endpoint {
	if e, ok := s.paths[string(path)]; ok {
		return e
	}
	if n := len(s.prefix); len(path) > n && string(path[:n]) == s.prefix && bytes.HasPrefix(path[n:], ownFiles) {
		return EndpointStatic
	}
	return EndpointNone
}

var ownFiles = []byte("/captcha/")
