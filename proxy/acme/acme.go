// Package acme obtains and renews certificates by ACME (RFC 8555), and answers challenges. certmagic speaks the
// protocol:
//
// 1. Account, certificates, locks and challenges are in the store, encrypted, so that gateways that share it share
// certificates.
// 2. Nothing is obtained before Start, when the listeners are open.
// 3. A failure is logged, counted and shown in Problems; the last good certificate stays in use.
// 4. A handshake never waits for the authority or the store. OCSP responses are not stapled: authorities and browsers
// have left OCSP.
package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
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

	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/store"
)

// Config says for which hosts certificates are obtained; none: it is off.
type Config struct {
	Email      string   `mapstructure:"email"` // contact; may be empty
	Hosts      []string `mapstructure:"hosts"`
	Directory  string   `mapstructure:"directory"`
	Challenges []string `mapstructure:"challenges"` // http-01 needs port 80, tls-alpn-01 port 443
	RootCA     string   `mapstructure:"root_ca"`    // PEM file of the authority's own roots; empty: the system's
}

// DefaultConfig is Let's Encrypt, without hosts.
func DefaultConfig() Config {
	return Config{Directory: certmagic.LetsEncryptProductionCA, Challenges: []string{challengeHTTP, challengeTLS}}
}

const (
	challengeHTTP = "http-01"
	challengeTLS  = "tls-alpn-01"
)

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
		if ascii, err := idna.Lookup.ToASCII(h); err != nil || !strings.Contains(ascii, ".") ||
			strings.ContainsAny(h, "*:/ ") {
			errs = append(errs, fmt.Errorf("hosts[%d]: %q is not the name of a public host such as www.example.com", i,
				h))
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
	HTTPPort, TLSPort int // where challenges arrive; 0: nowhere
}

// Keeper keeps certificates. Safe for concurrent use; made by New.
type Keeper struct {
	hosts   []string
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

// problem is a failed try, and the end of the certificate in use.
type problem struct {
	text string
	end  time.Time
}

// New makes a Keeper, which does nothing before Start.
func New(cfg Config, d Deps) (*Keeper, error) {
	k := &Keeper{
		log: d.Log, problems: map[string]problem{},
		storage:  &storage{kv: d.Store, seal: d.Seal, now: time.Now, locks: map[string]*lock{}},
		obtained: d.Metrics.GetOrCreateCounter("antirobot_acme_obtained_total"),
		failures: d.Metrics.GetOrCreateCounter("antirobot_acme_failures_total"),
	}
	for _, h := range cfg.Hosts {
		ascii, err := idna.Lookup.ToASCII(h)
		if err != nil {
			return nil, fmt.Errorf("hosts: %s: %w", h, err)
		}
		if !slices.Contains(k.hosts, ascii) {
			k.hosts = append(k.hosts, ascii)
		}
	}
	roots, err := rootsOf(cfg.RootCA)
	if err != nil {
		return nil, err
	}
	quiet := zap.NewNop() // events report what matters
	k.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return k.config, nil },
		Logger:           quiet,
	})
	k.config = certmagic.New(k.cache, certmagic.Config{
		Storage: k.storage, Logger: quiet, OnEvent: k.event, DefaultServerName: k.hosts[0],
		FallbackServerName: k.hosts[0], OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	k.issuer = certmagic.NewACMEIssuer(k.config, certmagic.ACMEIssuer{
		CA: cfg.Directory, Email: cfg.Email, Agreed: true, TrustedRoots: roots, Logger: quiet,
		DisableHTTPChallenge:    d.HTTPPort == 0 || !slices.Contains(cfg.Challenges, challengeHTTP),
		AltHTTPPort:             d.HTTPPort,
		DisableTLSALPNChallenge: d.TLSPort == 0 || !slices.Contains(cfg.Challenges, challengeTLS),
		AltTLSALPNPort:          d.TLSPort,
	})
	k.issuer.TestCA = "" // only the configured authority
	k.config.Issuers = []certmagic.Issuer{k.issuer}
	d.Metrics.NewGauge("antirobot_acme_hosts_without_certificate", func() float64 { return float64(len(k.missing())) })
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

// Start obtains and renews in the background.
func (k *Keeper) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	for _, host := range k.hosts {
		k.running.Go(func() { k.manage(ctx, host) })
	}
}

const storeAgain = time.Second

// manage hands a host to certmagic once the store can be read: certmagic would give up forever if it failed.
func (k *Keeper) manage(ctx context.Context, host string) {
	for waiting := false; ; waiting = true {
		_, err := k.storage.Load(ctx, certmagic.StorageKeys.SiteCert(k.issuer.IssuerKey(), host))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !waiting {
			k.log.Error().Err(err).Str("host", host).
				Msg("the store has no certificate to give yet; it is asked again every second")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(storeAgain):
		}
	}
	if err := k.config.ManageAsync(ctx, []string{host}); err != nil {
		k.log.Error().Err(err).Str("host", host).Msg("a certificate can't be managed")
	}
}

// Close stops renewing certificates and waits for what is under way.
func (k *Keeper) Close() error {
	if k.cancel != nil {
		k.cancel()
	}
	k.running.Wait()
	k.cache.Stop()
	return k.storage.close()
}

// GetCertificate is a tls.Config's; it also answers TLS-ALPN-01 challenges.
func (k *Keeper) GetCertificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return k.config.GetCertificate(h)
}

// Protocol is the ALPN protocol of a TLS-ALPN-01 challenge; listeners offer it last.
const Protocol = acmez.ACMETLS1Protocol

func (k *Keeper) event(_ context.Context, name string, data map[string]any) error {
	host, _ := data["identifier"].(string)
	switch name {
	case "cert_obtained":
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
	}
	return nil
}

func (k *Keeper) missing() (hosts []string) {
	for _, host := range k.hosts {
		if len(k.cache.AllMatchingCertificates(host)) == 0 {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (k *Keeper) end(host string) (last time.Time) {
	for _, c := range k.cache.AllMatchingCertificates(host) {
		if c.Leaf != nil && c.Leaf.NotAfter.After(last) {
			last = c.Leaf.NotAfter
		}
	}
	return last
}

// Problems returns failed tries without a later certificate.
func (k *Keeper) Problems() (all []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, host := range k.hosts {
		if p, ok := k.problems[host]; ok && !k.end(host).After(p.end) {
			all = append(all, host+": "+p.text)
		}
	}
	return all
}

// Challenges answers HTTP-01 challenges on listeners without TLS, and passes on other requests.
type Challenges struct {
	Keeper *Keeper
	Next   h1.Handler
}

var challengePath = []byte("/.well-known/acme-challenge/")

// ServeExchange implements h1.Handler.
func (c *Challenges) ServeExchange(x *h1.Exchange) {
	v := &x.View
	if !bytes.HasPrefix(v.Path, challengePath) || string(v.Method) != "GET" {
		c.Next.ServeExchange(x)
		return
	}
	r := &http.Request{Method: http.MethodGet, Host: string(v.Host), URL: &url.URL{Path: string(v.Path)}}
	w := answer{header: http.Header{}, status: http.StatusOK}
	if !c.Keeper.issuer.HandleHTTPChallenge(&w, r) || w.status != http.StatusOK {
		c.Next.ServeExchange(x) // the service may run an ACME client
		return
	}
	_ = x.Reply(w.status, []request.Field{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}, w.body.Bytes())
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) WriteHeader(status int) { a.status = status }
