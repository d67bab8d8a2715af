package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"antirobot/spravka"
)

// Answer is what one gateway answered.
type Answer struct {
	Peer
	Status int // of HTTP
	Body   []byte
	Err    error // why there is no answer
}

const (
	scheme    = "Gateway " // of the field Authorization
	asksFor   = time.Minute
	maxAnswer = 16 << 20 // bytes
)

var (
	errNoAddress = errors.New("it has not told where it can be asked: set admin.advertise there")
	errPin       = errors.New("its certificate is not the one that it told")
)

// Ask puts a question to every other gateway at once: GET target, which begins with a slash. The answers come in the
// order of names, none later than the time limit.
func (p *Peers) Ask(ctx context.Context, target string) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	others, err := p.known(ctx)
	if err != nil {
		return nil, fmt.Errorf("the store does not say which gateways there are: %w", err)
	}
	answers := make([]Answer, len(others))
	var all sync.WaitGroup
	for i, o := range others {
		answers[i].Peer = o
		all.Go(func() { answers[i].Status, answers[i].Body, answers[i].Err = p.ask(ctx, &o, target) })
	}
	all.Wait()
	return answers, nil
}

func (p *Peers) ask(ctx context.Context, o *Peer, target string) (status int, body []byte, err error) {
	if o.Address == "" {
		return 0, nil, errNoAddress
	}
	client, way := &p.plain, "http://"
	if len(o.Pin) > 0 {
		client, way = &http.Client{Transport: transport(o.Pin), CheckRedirect: stay}, "https://"
		defer client.CloseIdleConnections()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, way+o.Address+target, nil)
	if err != nil {
		return 0, nil, err
	}
	seal := p.Ring().Seal(nil, spravka.PurposeGateway, question(o.Name, req.URL.RequestURI()), []byte(p.Self().Name),
		p.Now().Add(asksFor))
	req.Header.Set("Authorization", scheme+string(seal))
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil, fmt.Errorf("no answer within %v", p.Timeout)
		}
		var u *url.Error
		if errors.As(err, &u) { // without the address, which the error under it has too
			err = u.Err
		}
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, err
	case len(body) > maxAnswer:
		return 0, nil, fmt.Errorf("its answer is longer than %d MiB", maxAnswer>>20)
	}
	return res.StatusCode, body, nil
}

// Asked returns which gateway puts a question to this one, by the field Authorization of a GET.
func (p *Peers) Asked(field []byte, target string) (name string, ok bool) {
	seal, ok := bytes.CutPrefix(field, []byte(scheme))
	if !ok {
		return "", false
	}
	text, err := p.Ring().Open(nil, spravka.PurposeGateway, question(p.Self().Name, target), seal, p.Now())
	return string(text), err == nil
}

// question is what a question's seal is bound to.
func question(to, target string) []byte { return spravka.AppendContext(nil, "question", to, target) }

// stay follows no redirect: a gateway asks the registered address only.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transport speaks to private listeners, without a proxy on the way. With a pin it speaks TLS, to whoever has that
// certificate.
func transport(pin []byte) *http.Transport {
	t := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: asksFor}).DialContext, // the question has its own limit
		IdleConnTimeout: 10 * time.Second, MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: 64 << 10,
		DisableCompression: true,
	}
	if pin == nil {
		return t
	}
	t.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // not by name or authority, but by the very certificate, below
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) > 0 {
				if sum := sha256.Sum256(state.PeerCertificates[0].Raw); bytes.Equal(sum[:], pin) {
					return nil
				}
			}
			return errPin
		},
	}
	return t
}

// PinOf returns the pin of a certificate, nil of nil.
func PinOf(c *tls.Certificate) []byte {
	if c == nil || len(c.Certificate) == 0 {
		return nil
	}
	sum := sha256.Sum256(c.Certificate[0])
	return sum[:]
}
