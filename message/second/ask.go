package second

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

const maxHosts = 5

type listedNet = netip.Prefix

func (a *asker) openDNS() {
	for _, n := range a.cfg.Listed {
		if p, err := netip.ParsePrefix(n); err == nil {
			a.listed = append(a.listed, p)
		}
	}
	a.resolver = net.DefaultResolver
	if server := a.cfg.Server; server != "" {
		a.resolver = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, server)
			},
		}
	}
}

func (a *asker) askDNS(ctx context.Context, q *Question) Opinion {
	var names []string
	for _, h := range q.Hosts {
		if name := listName(h); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	out := Opinion{Why: "it links to nothing that can be listed"}
	for i, name := range names {
		if i == maxHosts {
			break
		}
		o, err := a.once(ctx, sha256.Sum256([]byte(name)),
			func(ctx context.Context) (Opinion, error) { return a.lookUp(ctx, name) })
		if out = o; err != nil || o.Says == Bad {
			break
		}
	}
	return out
}

// listName returns the registered domain, or the reversed address.
func listName(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return reversed(addr.Unmap())
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil || len(domain) > 200 {
		return ""
	}
	return domain
}

// reversed follows RFC 5782: the octets of IPv4, the nibbles of IPv6, the last first.
func reversed(addr netip.Addr) string {
	var parts []string
	for _, b := range addr.AsSlice() {
		if addr.Is4() {
			parts = append(parts, strconv.Itoa(int(b)))
		} else {
			parts = append(parts, strconv.FormatUint(uint64(b>>4), 16), strconv.FormatUint(uint64(b&15), 16))
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// lookUp asks for one name. An answer outside of listed is a failure: lists use it for errors, and some networks
// invent answers.
func (a *asker) lookUp(ctx context.Context, name string) (Opinion, error) {
	found, err := a.resolver.LookupNetIP(ctx, "ip4", name+"."+strings.TrimSuffix(a.cfg.Zone, ".")+".")
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return Opinion{Why: name + " is not listed"}, nil
	}
	if err != nil {
		return Opinion{}, fmt.Errorf("look up: %w", err)
	}
	for _, addr := range found {
		for _, n := range a.listed {
			if n.Contains(addr.Unmap()) {
				return Opinion{Says: Bad, Why: fmt.Sprintf("%s is listed as %v", name, addr)}, nil
			}
		}
	}
	return Opinion{}, fmt.Errorf("the list answers %v, which says nothing of %s", found, name)
}

type asked struct {
	Version int            `json:"version"`
	Service string         `json:"service"`
	Route   string         `json:"route"`
	Domain  string         `json:"domain"`
	Score   float64        `json:"score"`
	Message map[string]any `json:"message"`
}

type answered struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

const (
	maxAnswer = 64 << 10
	maxReason = 200
)

func (a *asker) askHTTP(ctx context.Context, q *Question) Opinion {
	in := asked{1, q.Service, q.Route, q.Domain, q.Score, make(map[string]any)}
	for _, name := range a.cfg.Send {
		if v, ok := q.Message[name]; ok {
			in.Message[name] = v
		}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return Opinion{Why: err.Error()}
	}
	o, _ := a.once(ctx, sha256.Sum256(body), func(ctx context.Context) (Opinion, error) { return a.post(ctx, body) })
	return o
}

func (a *asker) post(ctx context.Context, body []byte) (Opinion, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return Opinion{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.cfg.Token)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return Opinion{}, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Opinion{}, err
	case res.StatusCode != http.StatusOK:
		return Opinion{}, fmt.Errorf("the answer is %s", res.Status)
	case len(answer) > maxAnswer:
		return Opinion{}, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return readAnswer(answer)
}

func readAnswer(answer []byte) (Opinion, error) {
	var out answered
	if err := json.Unmarshal(answer, &out); err != nil {
		return Opinion{}, fmt.Errorf("the answer is not JSON: %w", err)
	}
	reason := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, out.Reason)
	if r := []rune(reason); len(r) > maxReason {
		reason = string(r[:maxReason])
	}
	for _, s := range [...]Says{Unsure, Good, Bad} {
		if out.Verdict == s.String() {
			return Opinion{Says: s, Why: reason}, nil
		}
	}
	return Opinion{}, fmt.Errorf("the verdict is %.20q, neither good, bad nor unsure", out.Verdict)
}
