package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"antirobot/admin"
	"antirobot/alarm"
	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/journal"
	"antirobot/message"
	"antirobot/problem"
	"antirobot/proxy"
	"antirobot/proxy/acme"
	"antirobot/proxy/h1"
	"antirobot/proxy/h1/hello"
	"antirobot/proxy/h2"
	"antirobot/proxy/traces"
	"antirobot/proxy/upstream"
	"antirobot/rules/requestrules"
	"antirobot/spravka"
	"antirobot/store/redisstore"
	"antirobot/stream"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
	"antirobot/verdict/processor"
)

// Config is the whole configuration. config.example.yaml documents every key.
type Config struct {
	Role       string            `mapstructure:"role"` // all, gateway or processor
	Listen     []Listener        `mapstructure:"listen"`
	Admin      admin.Config      `mapstructure:"admin"`
	DataDir    string            `mapstructure:"data_dir"`
	Keys       Keys              `mapstructure:"keys"`
	Log        Log               `mapstructure:"log"`
	Check      proxy.CheckConfig `mapstructure:"check"`
	TLS        TLS               `mapstructure:"tls"`
	HTTP       h1.Config         `mapstructure:"http"`
	HTTP2      h2.Config         `mapstructure:"http2"`
	Delay      time.Duration     `mapstructure:"drain_delay"`   // between "not ready" and closed listeners
	Drain      time.Duration     `mapstructure:"drain_timeout"` // for requests under way when the gateway is told to stop
	Identity   identity.Config   `mapstructure:"identity"`
	Lists      cbb.Config        `mapstructure:"lists"`
	Geo        geo.Config        `mapstructure:"geo"`
	Captcha    captcha.Config    `mapstructure:"captcha"`
	Verdict    verdict.Config    `mapstructure:"verdict"`
	Processor  processor.Config  `mapstructure:"processor"`
	Labels     label.Config      `mapstructure:"labels"`
	Journal    journal.Config    `mapstructure:"journal"`
	Alarms     alarm.Config      `mapstructure:"alarms"`
	Traces     traces.Config     `mapstructure:"traces"`
	Formula    formula.Config    `mapstructure:"formula"`
	Store      Store             `mapstructure:"store"`
	Stream     stream.Config     `mapstructure:"stream"`
	RestartLog time.Duration     `mapstructure:"restart_log"` // for which it is kept; 0: there is none
	Counters   counter.Config    `mapstructure:"-"`
	Message    message.Config    `mapstructure:"message"`

	// Defaults are the settings that every service begins with; Services lists what differs, with a name each. Both
	// are kept as they stand in the file and resolved in order: built-in, defaults, service, path.
	Defaults map[string]any   `mapstructure:"defaults"`
	Services []map[string]any `mapstructure:"services"`

	File    string   `mapstructure:"-"` // it was read from; empty: none
	Origins []Origin `mapstructure:"-"` // of the keys that are set by flags and by variables of the environment

	environment bool      // was read
	inherited   Service   // what defaults make of the built-in settings; set by resolveServices
	Resolved    []Service `mapstructure:"-"` // set by resolveServices
}

// Listener is one address that visitors connect to.
type Listener struct {
	Address string `mapstructure:"address"`
	TLSCert string `mapstructure:"tls_cert"` // PEM; read again on reload
	TLSKey  string `mapstructure:"tls_key"`
	// Further certificates, for other hosts: the client's server name chooses.
	Certificates []hello.CertificateFiles `mapstructure:"certificates"`
	ACME         bool                     `mapstructure:"acme"` // TLS with the certificates of tls.acme, for hosts that no file covers
	// Who signs the certificates of clients, PEM, read again on reload; empty: none are asked for.
	ClientCA       string `mapstructure:"client_ca"`
	ClientRequired bool   `mapstructure:"client_required"` // a client without one is not served

	RedirectHTTPS bool `mapstructure:"redirect_https"` // sends every visitor to https
	H2C           bool `mapstructure:"h2c"`            // HTTP/2 without TLS, for clients that begin with it
	HTTP3         bool `mapstructure:"http3"`          // with TLS: UDP at the same port as well, and answers say so
	HTTP3Port     int  `mapstructure:"http3_port"`     // that they name; 0: the listener's own
	ProxyProtocol bool `mapstructure:"proxy_protocol"` // from trusted_proxies only, and then from all of them
}

// TLS is what all listeners with TLS share.
type TLS struct {
	ACME acme.Config `mapstructure:"acme"`
}

// Validate returns every error of t.
func (t *TLS) Validate() error { return problem.At("acme", t.ACME.Validate()) }

// Secure reports whether the listener speaks TLS.
func (l *Listener) Secure() bool { return l.TLSCert != "" || l.ACME }

// Files returns the files of its certificates.
func (l *Listener) Files() []hello.CertificateFiles {
	if l.TLSCert == "" {
		return nil
	}
	return append([]hello.CertificateFiles{{CertFile: l.TLSCert, KeyFile: l.TLSKey}}, l.Certificates...)
}

// Keys says where the key ring is.
type Keys struct {
	File string `mapstructure:"file"` // default: keys.json in the data directory, or the ring in a shared store
	// The secret that wraps the ring in a shared store: one of a file and a variable of the environment.
	SecretFile string `mapstructure:"secret_file"`
	SecretEnv  string `mapstructure:"secret_env"`
}

// Log says what is logged, to standard output as JSON lines.
type Log struct {
	Level       string `mapstructure:"level"`        // debug, info, warn or error
	Access      bool   `mapstructure:"access"`       // a line for every request
	AccessLines int    `mapstructure:"access_lines"` // a second at most; 0: no limit
}

// Service is the settings of one protected site, or of a path of one.
type Service struct {
	Name     string                     `mapstructure:"name"`
	Hosts    []string                   `mapstructure:"hosts"`
	Prefixes []string                   `mapstructure:"prefixes"`
	Upstream upstream.Config            `mapstructure:"upstream"`
	Cookies  identity.ServiceConfig     `mapstructure:"cookies"`
	Captcha  captcha.ServiceConfig      `mapstructure:"captcha"`
	Verdict  verdict.ServiceConfig      `mapstructure:"verdict"`
	Requests proxy.ServiceConfig        `mapstructure:"requests"`
	Rules    requestrules.ServiceConfig `mapstructure:"rules"`
	Messages proxy.MessagesConfig       `mapstructure:"messages"`
	Paths    []map[string]any           `mapstructure:"paths"`

	Path     string `mapstructure:"-"` // where it stands in the file, for errors
	Resolved []Path `mapstructure:"-"` // set by resolveServices
}

// Path is the settings of the paths of a service that begin with Prefix.
type Path struct {
	Prefix string
	Service
}

// Default returns the defaults: one listener, nothing to protect.
func Default() Config {
	return Config{
		Role:       RoleAll,
		Listen:     []Listener{{Address: ":8080", Certificates: []hello.CertificateFiles{}}},
		Admin:      admin.DefaultConfig(),
		DataDir:    "var",
		Log:        Log{Level: "info", Access: true, AccessLines: 5000},
		Check:      proxy.DefaultCheckConfig(),
		TLS:        TLS{ACME: acme.DefaultConfig()},
		HTTP:       h1.DefaultConfig(),
		HTTP2:      h2.DefaultConfig(),
		Drain:      30 * time.Second,
		Identity:   identity.DefaultConfig(),
		Lists:      cbb.DefaultConfig(),
		Captcha:    captcha.DefaultConfig(),
		Verdict:    verdict.DefaultConfig(),
		Processor:  processor.DefaultConfig(),
		Geo:        geo.DefaultConfig(),
		Labels:     label.DefaultConfig(),
		Journal:    journal.DefaultConfig(),
		Traces:     traces.DefaultConfig(),
		Alarms:     alarm.DefaultConfig(),
		Store:      Store{Redis: redisstore.DefaultConfig()},
		Stream:     stream.DefaultConfig(),
		RestartLog: 24 * time.Hour,
		Counters:   defaultCounters(),
		Message:    message.DefaultConfig(),
	}
}

// defaultCounters leaves memory to the service that runs on the same machine.
func defaultCounters() counter.Config {
	c := counter.DefaultConfig()
	c.CacheBytes = 64 << 20
	c.MaxBuffered = 1 << 20
	return c
}

func defaultService() Service {
	return Service{
		Upstream: upstream.DefaultConfig(),
		Cookies:  identity.DefaultServiceConfig(),
		Captcha:  captcha.DefaultServiceConfig(),
		Verdict:  verdict.DefaultServiceConfig(),
		Requests: proxy.DefaultServiceConfig(),
		Rules:    requestrules.DefaultServiceConfig(),
	}
}

// OverrideUpstreams gives every service the upstreams of the command line.
func (c *Config) OverrideUpstreams(urls []string) {
	set := func(m map[string]any) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			out[k] = v
		}
		up := map[string]any{}
		if old, ok := out["upstream"].(map[string]any); ok {
			for k, v := range old {
				up[k] = v
			}
		}
		up["urls"] = urls
		out["upstream"] = up
		return out
	}
	c.Defaults = set(c.Defaults)
	for i := range c.Services {
		c.Services[i] = set(c.Services[i])
	}
}

// KeyFile returns where the key ring is.
func (c *Config) KeyFile() string {
	if c.Keys.File != "" {
		return c.Keys.File
	}
	return filepath.Join(c.DataDir, "keys.json")
}

// SharedKeys is the file in the data directory with a gateway's copy of the key ring that gateways share.
const SharedKeys = "keys.shared"

// KeyCopy is where that is; empty: the ring is in KeyFile.
func (c *Config) KeyCopy() string {
	if !c.Store.Shared() || c.Keys.File != "" {
		return ""
	}
	return filepath.Join(c.DataDir, SharedKeys)
}

// restartKeys are the settings, or sections, that are read at start only.
var restartKeys = []string{
	"role", "stream", "restart_log", "data_dir", "log.access", "log.access_lines",
	"admin", "check.listen", "check.spoe", "check.grpc", "http2", "http3", "tls", "store", "message", "verdict", "processor", "labels",
	"journal", "alarms", "traces",
}

// NeedRestart names the settings of next that differ from c and take effect at the next start only.
func (c *Config) NeedRestart(next *Config) []string {
	var names []string
	if !slices.EqualFunc(c.Listen, next.Listen, Listener.sameSocket) {
		names = append(names, "listen")
	}
	changed := changedKeys(reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem(), "")
	return append(names, below(changed, restartKeys)...)
}

// CarryOver gives next the values of c, the running configuration, for all that takes effect at the next start only. So
// next says what is true once it runs, and a later reload still finds what differs from the file.
func (c *Config) CarryOver(next *Config) {
	if !slices.EqualFunc(c.Listen, next.Listen, Listener.sameSocket) { // else the files of certificates may be new
		next.Listen = c.Listen
	}
	copyKeys(reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem(), "", restartKeys)
}

// sameSocket reports whether a listener can go on as another: only its files may differ.
func (l Listener) sameSocket(o Listener) bool { return reflect.DeepEqual(l.socket(), o.socket()) }

// socket is the listener without the names of files, which a reload reads again.
func (l Listener) socket() Listener {
	l.TLSKey, l.Certificates = "", nil
	for _, file := range []*string{&l.TLSCert, &l.ClientCA} {
		if *file != "" {
			*file = "some"
		}
	}
	return l
}

// Enforces reports whether any service stops anybody.
func (c *Config) Enforces() bool {
	for i := range c.Resolved {
		s := &c.Resolved[i]
		if s.Verdict.Mode == "enforce" {
			return true
		}
		for k := range s.Resolved {
			if s.Resolved[k].Verdict.Mode == "enforce" {
				return true
			}
		}
	}
	return false
}

// ErrExampleKey refuses to protect anything with a key that everybody can read.
func ErrExampleKey(c *Config) error {
	return fmt.Errorf("keys.file: %s holds the example key of the documentation, so anybody could make passes; make a ring of your own with `antirobot keys make`", c.KeyFile())
}

// Secret returns what the shared key ring is wrapped with.
func (k *Keys) Secret() ([]byte, error) {
	var secret, path string
	switch {
	case k.SecretFile != "":
		b, err := os.ReadFile(k.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("keys.secret_file: %w", err)
		}
		secret, path = strings.TrimRight(string(b), "\r\n"), "keys.secret_file"
	case k.SecretEnv != "":
		secret, path = os.Getenv(k.SecretEnv), "keys.secret_env"
	default:
		return nil, errors.New("the store is shared, so all gateways need one key ring: give each the same secret in keys.secret_file or " +
			"keys.secret_env (16 bytes or more), and the first one makes the ring and keeps it in the store, wrapped with it; " +
			"or give each the same ring in keys.file")
	}
	if len(secret) < spravka.MinWrapSecret {
		return nil, fmt.Errorf("%s: the secret has %d bytes, and needs %d or more", path, len(secret), spravka.MinWrapSecret)
	}
	return []byte(secret), nil
}
