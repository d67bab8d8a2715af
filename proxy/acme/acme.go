// Package acme obtains certificates from a certificate authority that speaks ACME (RFC 8555), renews them long before their
// end, and answers the authority's challenges. The protocol is certmagic's; here it is joined with the gateway:
//
//  1. Account, certificates, locks and challenges are in the store, encrypted: gateways that share it need one certificate
//     between them, and any of them may be asked for the answer to a challenge.
//  2. Nothing is obtained before Start, when the listeners that answer challenges are open.
//  3. A failure is logged, counted and shown in Problems; the last good certificate stays in use, and another try follows.
//  4. A handshake waits for nobody: not for the authority, not for its OCSP responder, not for the store.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"golang.org/x/net/idna"

	"antirobot/store"
)

// Config says for which hosts certificates are obtained, and from whom. Without hosts nothing is.
type Config struct {
	Email      string   `mapstructure:"email"`       // where the authority writes to, if anything goes wrong; may be empty
	Hosts      []string `mapstructure:"hosts"`       // one certificate each
	Directory  string   `mapstructure:"directory"`   // of the authority
	Challenges []string `mapstructure:"challenges"`  // which kinds may be used: http-01 needs port 80, tls-alpn-01 port 443
	RootCA     string   `mapstructure:"root_ca"`     // PEM file: who vouches for the authority itself; empty: this system's roots
	MustStaple bool     `mapstructure:"must_staple"` // ask for certificates that are worth nothing without an OCSP response
}

// DefaultConfig is Let's Encrypt, for no host.
func DefaultConfig() Config {
	return Config{Directory: certmagic.LetsEncryptProductionCA, Challenges: []string{challengeHTTP, challengeTLS}}
}

// The kinds of challenges.
const (
	challengeHTTP = "http-01"
	challengeTLS  = "tls-alpn-01"
)

// maxHosts bounds the certificates of one gateway.
const maxHosts = 1000

// Validate returns everything that is wrong, each with its key.
func (c *Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		errs = append(errs, fmt.Errorf("directory: %q is not an https URL", c.Directory))
	}
	if c.Email != "" && !strings.Contains(c.Email, "@") {
		errs = append(errs, fmt.Errorf("email: %q is not an address", c.Email))
	}
	if len(c.Challenges) == 0 {
		errs = append(errs, errors.New("challenges: needs http-01, tls-alpn-01 or both"))
	}
	for i, kind := range c.Challenges {
		if kind != challengeHTTP && kind != challengeTLS {
			errs = append(errs, fmt.Errorf("challenges[%d]: %q is neither http-01 nor tls-alpn-01", i, kind))
		}
	}
	if len(c.Hosts) > maxHosts {
		errs = append(errs, fmt.Errorf("hosts: %d are more than %d", len(c.Hosts), maxHosts))
	}
	for i, h := range c.Hosts {
		if ascii, err := idna.Lookup.ToASCII(h); err != nil || !strings.Contains(ascii, ".") || strings.ContainsAny(h, "*:/ ") {
			errs = append(errs, fmt.Errorf("hosts[%d]: %q is not the name of a public host such as www.example.com", i, h))
		}
	}
	return errors.Join(errs...)
}

// Deps is what a Keeper works with. All but the ports are required.
type Deps struct {
	Store             store.KV
	Seal              Sealer
	Log               zerolog.Logger
	Metrics           *metrics.Set
	HTTPPort, TLSPort int // of the listeners to which the authority's requests for ports 80 and 443 come; 0: there is none
}

// Keeper keeps certificates. Safe for concurrent use; made by New.
type Keeper struct {
	sites   []*site
	byHost  map[string]*site
	config  *certmagic.Config
	cache   *certmagic.Cache
	issuer  *certmagic.ACMEIssuer
	storage *storage
	log     zerolog.Logger
	cancel  context.CancelFunc
	running sync.WaitGroup

	obtained, failures *metrics.Counter

	mu       sync.Mutex
	problems map[string]problem // by host
}

// problem is why a try failed, and the end of the certificate that there was then.
type problem struct {
	text string
	end  time.Time
}

// New makes a Keeper, which does nothing before Start.
func New(cfg Config, d Deps) (*Keeper, error) {
	k := &Keeper{
		log: d.Log, problems: map[string]problem{}, byHost: map[string]*site{},
		storage:  &storage{kv: d.Store, seal: d.Seal, now: time.Now, locks: map[string]*lock{}},
		obtained: d.Metrics.GetOrCreateCounter("antirobot_acme_obtained_total"),
		failures: d.Metrics.GetOrCreateCounter("antirobot_acme_failures_total"),
	}
	for _, h := range cfg.Hosts {
		ascii, err := idna.Lookup.ToASCII(h)
		if err != nil {
			return nil, fmt.Errorf("hosts: %s: %w", h, err)
		}
		if k.byHost[ascii] == nil {
			k.byHost[ascii] = &site{host: ascii}
			k.sites = append(k.sites, k.byHost[ascii])
		}
	}
	roots, err := rootsOf(cfg.RootCA)
	if err != nil {
		return nil, err
	}
	quiet := zap.NewNop() // what matters is told by events
	k.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return k.config, nil }, Logger: quiet,
	})
	k.config = certmagic.New(k.cache, certmagic.Config{
		Storage: k.storage, Logger: quiet, OnEvent: k.event, DefaultServerName: k.sites[0].host, FallbackServerName: k.sites[0].host,
		MustStaple: cfg.MustStaple,
		// without a proxy certmagic asks responders with no limit of time, and one that never answers ends all renewals
		OCSP: certmagic.OCSPConfig{HTTPProxy: http.ProxyFromEnvironment},
	})
	k.issuer = certmagic.NewACMEIssuer(k.config, certmagic.ACMEIssuer{
		CA: cfg.Directory, Email: cfg.Email, Agreed: true, TrustedRoots: roots, Logger: quiet,
		DisableHTTPChallenge: d.HTTPPort == 0 || !slices.Contains(cfg.Challenges, challengeHTTP), AltHTTPPort: d.HTTPPort,
		DisableTLSALPNChallenge: d.TLSPort == 0 || !slices.Contains(cfg.Challenges, challengeTLS), AltTLSALPNPort: d.TLSPort,
	})
	k.issuer.TestCA = "" // only the configured authority is ever called
	k.config.Issuers = []certmagic.Issuer{k.issuer}
	d.Metrics.NewGauge("antirobot_acme_hosts_without_certificate", func() float64 { return float64(len(k.missing())) })
	d.Metrics.NewGauge("antirobot_acme_hosts_without_staple", func() float64 { return float64(k.unstapled(time.Now())) })
	return k, nil
}

func rootsOf(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("root_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("root_ca: %s has no certificate in PEM", file)
	}
	return pool, nil
}

// stapleTurn is how often is looked which certificates are served without an OCSP response.
const stapleTurn = time.Minute

// Start begins to obtain and renew, in the background. The listeners are open.
func (k *Keeper) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	for _, s := range k.sites {
		k.running.Go(func() { k.manage(ctx, s) })
	}
	bare := map[*site]bool{}
	k.running.Go(func() { store.Every(ctx, stapleTurn, func() { k.watch(bare, time.Now()) }) })
}

// storeAgain is when a store that could not be read at start is read again.
const storeAgain = time.Second

// manage has what is stored for a site served, and hands the site to certmagic. certmagic would give up a host for ever if
// the store did not answer now.
func (k *Keeper) manage(ctx context.Context, s *site) {
	for waiting := false; ; waiting = true {
		err := k.remember(ctx, s)
		if err == nil {
			break
		}
		if !waiting {
			k.log.Error().Err(err).Str("host", s.host).Msg("the store has no certificate to give yet; it is asked again every second")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(storeAgain):
		}
	}
	if err := k.config.ManageAsync(ctx, []string{s.host}); err != nil {
		k.log.Error().Err(err).Str("host", s.host).Msg("a certificate can't be managed")
	}
}

// Close ends what Start began.
func (k *Keeper) Close() error {
	if k.cancel != nil {
		k.cancel()
	}
	k.running.Wait()
	k.cache.Stop()
	return k.storage.close()
}

// GetCertificate is that of a tls.Config; it also answers TLS-ALPN-01 challenges.
func (k *Keeper) GetCertificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := k.config.GetCertificate(h)
	if len(h.SupportedProtos) == 1 && h.SupportedProtos[0] == Protocol {
		return cert, err // crypto/tls expects it bare
	}
	s := k.byHost[strings.ToLower(h.ServerName)]
	if s == nil {
		s = k.sites[0]
	}
	return s.serve(cert, err, time.Now())
}

// Protocol is what the handshake of a TLS-ALPN-01 challenge chooses: a listener's tls.Config offers it last.
const Protocol = acmez.ACMETLS1Protocol

// event is told by certmagic what happens.
func (k *Keeper) event(ctx context.Context, name string, data map[string]any) error {
	host, _ := data["identifier"].(string)
	switch name {
	case "cert_obtained":
		if s := k.byHost[host]; s != nil {
			_ = k.remember(ctx, s) // certmagic has it, too, and sooner or later serves it
		}
		k.obtained.Inc()
		k.log.Info().Str("host", host).Msg("certificate obtained")
		k.mu.Lock()
		delete(k.problems, host)
		k.mu.Unlock()
	case "cert_failed":
		k.failures.Inc()
		err, _ := data["error"].(error)
		k.log.Error().Err(err).Str("host", host).Msg("no certificate could be obtained; another try follows")
		p := problem{fmt.Sprint(err), k.end(host)}
		k.mu.Lock()
		k.problems[host] = p
		k.mu.Unlock()
	case "cert_ocsp_revoked":
		hosts, _ := data["subjects"].([]string)
		k.log.Error().Strs("hosts", hosts).Msg("the authority has revoked a certificate; another one is obtained")
	}
	return nil
}

// missing returns the hosts for which there is no certificate.
func (k *Keeper) missing() (hosts []string) {
	for _, s := range k.sites {
		if len(k.cache.AllMatchingCertificates(s.host)) == 0 && s.kept.Load() == nil {
			hosts = append(hosts, s.host)
		}
	}
	return hosts
}

// end returns when the certificate of a host ends; zero: there is none.
func (k *Keeper) end(host string) (last time.Time) {
	for _, c := range k.cache.AllMatchingCertificates(host) {
		if c.Leaf != nil && c.Leaf.NotAfter.After(last) {
			last = c.Leaf.NotAfter
		}
	}
	return last
}

// Problems says for which hosts the last try failed, and why. A later certificate, which another gateway may have obtained,
// settles it. And which certificates demand an OCSP response that there is not.
func (k *Keeper) Problems() (all []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sites {
		if p, ok := k.problems[s.host]; ok && !k.end(s.host).After(p.end) {
			all = append(all, s.host+": "+p.text)
		}
	}
	return append(all, k.problemsOfStaples(time.Now())...)
}
