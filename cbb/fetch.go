package cbb

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const maxRedirects = 5

// newClient makes the client for lists. It uses http and https only, wherever it is redirected, and never goes from
// https back to http.
func newClient(rt http.RoundTripper) *http.Client {
	if rt == nil {
		rt = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        10 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // decompressed here, within a bound
		}
	}
	return &http.Client{Transport: rt, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case req.URL.Scheme != "http" && req.URL.Scheme != "https":
			return fmt.Errorf("redirect to scheme %q", req.URL.Scheme)
		case req.URL.Scheme == "http" && via[0].URL.Scheme == "https":
			return errors.New("redirect from https to http")
		case via[0].Header.Get("X-Api-Key") != "" && req.URL.Host != via[0].URL.Host:
			return errors.New("redirect of a request with a key to another host")
		}
		return nil
	}}
}

// hideURL removes the URL from an error: it may carry a token, and the list's name says enough.
func hideURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// decoded undoes a Content-Encoding; limit bounds the compressed bytes.
func decoded(resp *http.Response, limit int64) (io.Reader, error) {
	body := &bounded{r: resp.Body, left: limit}
	switch enc := resp.Header.Get("Content-Encoding"); enc {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return z, nil
	default:
		return nil, fmt.Errorf("content encoding %q", enc)
	}
}

// gunzip decompresses a file that is itself compressed, whatever its name; limit bounds the plain bytes.
func gunzip(r io.Reader, limit int64) (io.Reader, error) {
	br := bufio.NewReader(r)
	if b, _ := br.Peek(2); len(b) < 2 || b[0] != 0x1F || b[1] != 0x8B {
		return br, nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return &bounded{r: z, left: limit}, nil
}

// bounded is a reader that fails with errTooLarge instead of ending early.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
