package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"golang.org/x/crypto/ocsp"
)

// site is a host's state beside certmagic's cache, which holds a certificate only after its OCSP responder answered or
// failed, and staples expired responses. Safe for concurrent use.
type site struct {
	host string
	kept atomic.Pointer[tls.Certificate] // as stored, with its response; nil: none
	last atomic.Pointer[response]        // read last
}

// response is the validity of an OCSP response.
type response struct {
	first *byte // identifies it
	until time.Time
}

func (s *site) fresh(staple []byte, at time.Time) bool {
	if len(staple) == 0 {
		return false
	}
	r := s.last.Load()
	if r == nil || r.first != &staple[0] {
		r = &response{first: &staple[0]}
		if parsed, err := ocsp.ParseResponse(staple, nil); err == nil {
			if r.until = parsed.NextUpdate; r.until.IsZero() { // never expires
				r.until = parsed.ThisUpdate.Add(certmagic.DefaultOCSPCheckInterval * 2)
			}
		}
		s.last.Store(r)
	}
	return at.Before(r.until)
}

// serve completes a certificate from certmagic: a missing one, and an expired response. Clients accept no response
// rather than an expired one.
func (s *site) serve(cert *tls.Certificate, err error, at time.Time) (*tls.Certificate, error) {
	kept := s.kept.Load()
	if kept != nil && (err != nil || cert.Leaf == nil || cert.Leaf.VerifyHostname(s.host) != nil) {
		c := *kept
		cert, err = &c, nil
	}
	if err != nil || len(cert.Certificate) == 0 || s.fresh(cert.OCSPStaple, at) {
		return cert, err
	}
	cert.OCSPStaple = nil
	if kept != nil && bytes.Equal(kept.Certificate[0], cert.Certificate[0]) && s.fresh(kept.OCSPStaple, at) {
		cert.OCSPStaple = kept.OCSPStaple
	}
	return cert, nil
}

// remember keeps a site's stored certificate. It fails if the store can't be read, not if it has none.
func (k *Keeper) remember(ctx context.Context, s *site) error {
	chain, err := k.storage.Load(ctx, certmagic.StorageKeys.SiteCert(k.issuer.IssuerKey(), s.host))
	var key []byte
	if err == nil {
		key, err = k.storage.Load(ctx, certmagic.StorageKeys.SitePrivateKey(k.issuer.IssuerKey(), s.host))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil //nolint:nilerr // certmagic obtains another one
	}
	cert.OCSPStaple, err = k.storedResponse(ctx, s.host, cert.Leaf)
	s.kept.Store(&cert)
	return err
}

// ocspFolder is certmagic's folder of responses.
const ocspFolder = "ocsp"

// storedResponse returns the stored response that ends last; nil: none. certmagic may store two.
func (k *Keeper) storedResponse(ctx context.Context, host string, leaf *x509.Certificate) (last []byte, err error) {
	files, err := k.storage.List(ctx, ocspFolder, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var until time.Time
	for _, f := range files {
		if !strings.HasPrefix(path.Base(f), certmagic.StorageKeys.Safe(host)+"-") {
			continue
		}
		b, err := k.storage.Load(ctx, f)
		if err != nil {
			return nil, err
		}
		r, err := ocsp.ParseResponse(b, nil)
		if err == nil && r.SerialNumber.Cmp(leaf.SerialNumber) == 0 && r.Status == ocsp.Good &&
			r.NextUpdate.After(until) {
			last, until = b, r.NextUpdate
		}
	}
	return last, err
}

// served returns the current certificate of a site; nil: none.
func (k *Keeper) served(s *site, at time.Time) *tls.Certificate {
	var best tls.Certificate
	for _, c := range k.cache.AllMatchingCertificates(s.host) {
		if best.Leaf == nil || c.Leaf.NotAfter.After(best.Leaf.NotAfter) {
			best = c.Certificate
		}
	}
	cert, err := s.serve(&best, nil, at)
	if err != nil || cert.Leaf == nil {
		return nil
	}
	return cert
}

// bare reports whether a certificate with a responder is served without a response, and whether it requires one
// (must-staple).
func (k *Keeper) bare(s *site, at time.Time) (bare, demands bool) {
	c := k.served(s, at)
	if c == nil || len(c.Leaf.OCSPServer) == 0 || c.OCSPStaple != nil {
		return false, false
	}
	return true, mustStaple(c.Leaf)
}

// The must-staple extension (RFC 7633).
var (
	tlsFeature    = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}
	statusRequest = 5
)

func mustStaple(leaf *x509.Certificate) bool {
	for _, e := range leaf.Extensions {
		var features []int
		if !e.Id.Equal(tlsFeature) {
			continue
		}
		if _, err := asn1.Unmarshal(e.Value, &features); err != nil {
			return false
		}
		for _, f := range features {
			if f == statusRequest {
				return true
			}
		}
	}
	return false
}

// watch logs which sites lost or regained their response.
func (k *Keeper) watch(bare map[*site]bool, at time.Time) {
	for _, s := range k.sites {
		now, demands := k.bare(s, at)
		if now == bare[s] {
			continue
		}
		bare[s] = now
		switch {
		case demands:
			k.log.Error().Str("host", s.host).Msg("no OCSP response for a certificate that demands one: some " +
				"browsers refuse it")
		case now:
			k.log.Warn().Str("host", s.host).Msg("no OCSP response is stapled: the responder of the certificate gave " +
				"none")
		default:
			k.log.Info().Str("host", s.host).Msg("an OCSP response is stapled")
		}
	}
}

func (k *Keeper) unstapled(at time.Time) (n int) {
	for _, s := range k.sites {
		if bare, _ := k.bare(s, at); bare {
			n++
		}
	}
	return n
}

func (k *Keeper) problemsOfStaples(at time.Time) (all []string) {
	for _, s := range k.sites {
		if _, demands := k.bare(s, at); demands {
			all = append(all, fmt.Sprintf("%s: its certificate demands an OCSP response, and its responder gave none",
				s.host))
		}
	}
	return all
}
