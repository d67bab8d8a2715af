package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

// CookieSettings is a prepared ServiceConfig. It is immutable and safe for concurrent use.
type CookieSettings struct {
	names [numCookies]string // by kind; empty: not read
	// hostSpravka is the pass's second name, which no sibling domain and no unencrypted page can set.
	hostSpravka string

	service uint64 // hash of the service's name; see ForService
	domain  string // without a leading dot, lower case
	scope   uint64 // of domain
	iMinAge int64  // seconds

	fuidTrusted bool

	login         *login // nil: off
	serviceKeys   [][]byte
	servicePrint  uint64 // part of the keys of cached cookies: a cookie whose key was removed must not live on
	serviceMinAge int64  // seconds
	serviceText   string // "NAME=": equal values of two services' cookies are different people

	hosts [keptHosts]atomic.Pointer[hostScope] // the first hosts, in order, whose scopes are hashed once; then nil
}

// keptHosts is how many hosts of a service are kept: scanners that use addresses as hosts may come first.
const keptHosts = 8

type hostScope struct {
	host  string
	scope uint64
}

const numCookies = int(KindService) + 1

// NewCookieSettings validates the config and reads its keys.
func NewCookieSettings(c ServiceConfig) (*CookieSettings, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &CookieSettings{
		domain:        strings.ToLower(strings.TrimPrefix(c.Domain, ".")),
		iMinAge:       int64(c.IMinAge / time.Second),
		fuidTrusted:   c.Fuid == fuidTrusted,
		serviceMinAge: int64(c.ServiceCookie.MinAge / time.Second),
	}
	s.scope = spravka.ScopeOf(s.domain)
	s.names[KindSpravka] = c.SpravkaCookie
	if s.domain == "" {
		s.hostSpravka = hostPrefix + c.SpravkaCookie
	}
	s.names[KindI] = c.ICookie
	if c.Fuid != fuidOff {
		s.names[KindFuid] = c.FuidCookie
	}
	var errs []error
	if c.Login.Algorithm != algOff {
		s.names[KindL] = c.Login.Cookie
		l, err := newLogin(c.Login)
		s.login, errs = l, append(errs, err)
	}
	if c.ServiceCookie.Name != "" {
		s.names[KindService] = c.ServiceCookie.Name
		keys, err := readSecrets("service_cookie.keys", c.ServiceCookie.Keys)
		s.serviceKeys, errs = keys, append(errs, err)
		s.serviceText = c.ServiceCookie.Name + "="
		s.servicePrint = printOf(append([][]byte{[]byte(c.ServiceCookie.Name)}, keys...)...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// ForService binds the settings, and the credentials that it honours, to a service, before they are in use.
func (s *CookieSettings) ForService(name string) { s.service = request.Hash([]byte(name)) }

func readSecrets(path string, refs []KeyRef) ([][]byte, error) {
	var errs []error
	keys := make([][]byte, 0, len(refs))
	for i, ref := range refs {
		key, err := ref.read()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s[%d].%w", path, i, err))
		case len(key) < spravka.MinServiceKey:
			errs = append(errs, fmt.Errorf("%s[%d]: the key has %d bytes, must have %d or more", path, i, len(key),
				spravka.MinServiceKey))
		default:
			keys = append(keys, key)
		}
	}
	return keys, errors.Join(errs...)
}

func printOf(parts ...[]byte) uint64 {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write(p)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// CookieDomain returns the Domain of spravka and i on this host: empty if the host lies outside the configured one.
func (s *CookieSettings) CookieDomain(host []byte) string {
	if s.covers(host) {
		return s.domain
	}
	return ""
}

// Scope returns the scope with which passes and i cookies of this host are sealed.
func (s *CookieSettings) Scope(host []byte) uint64 {
	if s.covers(host) {
		return s.scope
	}
	for i := range s.hosts {
		h := s.hosts[i].Load()
		if h == nil {
			h = &hostScope{string(host), spravka.ScopeOf(host)}
			s.hosts[i].CompareAndSwap(nil, h)
			return h.scope
		}
		if h.host == string(host) {
			return h.scope
		}
	}
	return spravka.ScopeOf(host) // hosts that a client makes up must not cost an allocation each
}

// SpravkaCookie returns the name of the cookie that carries the pass.
func (s *CookieSettings) SpravkaCookie() string { return s.names[KindSpravka] }

// covers reports whether host (lower case, no port) is the cookie domain or below it.
func (s *CookieSettings) covers(host []byte) bool {
	n := len(host) - len(s.domain)
	return s.domain != "" && n >= 0 && string(host[n:]) == s.domain && (n == 0 || host[n-1] == '.')
}

// CookieDomainProblems warns that a host lies outside the cookie domain and has no service cookie.
func (c ServiceConfig) CookieDomainProblems(host string) []string {
	if c.Domain == "" {
		return nil
	}
	s := CookieSettings{domain: strings.ToLower(strings.TrimPrefix(c.Domain, "."))}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if bare, ok := strings.CutPrefix(host, "*."); ok {
		host = bare
	}
	if s.covers([]byte(host)) || c.ServiceCookie.Name != "" {
		return nil
	}
	return []string{fmt.Sprintf("host %s lies outside the cookie domain %s: it has passes and i cookies of its own, "+
		"and no service cookie that would tell its visitors apart at once", host, s.domain)}
}

// own reports whether a cookie is one of the gateway's.
func (s *CookieSettings) own(name []byte) bool {
	return string(name) == s.names[KindSpravka] || string(name) == s.names[KindI] || string(name) == s.hostSpravka
}

// HostSpravkaCookie is the pass's second name, for responses over https to a browser; empty if the pass is for a
// whole domain.
func (s *CookieSettings) HostSpravkaCookie() string { return s.hostSpravka }

// OwnCookies returns the names of the gateway's cookies.
func (s *CookieSettings) OwnCookies() []string {
	var names []string
	for _, k := range []Kind{KindSpravka, KindI} {
		if s.names[k] != "" {
			names = append(names, s.names[k])
		}
	}
	if s.hostSpravka != "" {
		names = append(names, s.hostSpravka)
	}
	return names
}
