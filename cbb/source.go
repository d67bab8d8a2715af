package cbb

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"
)

const (
	retryFirst = 15 * time.Second
	retryMost  = time.Hour
)

// source is the origin of one list, or of a crawler's ranges: a file or a URL, plus the last good copy.
type source struct {
	name    string // of the list or crawler
	url     string // one of url and file is set
	file    string
	format  string
	keyFile string // of a bouncer's key; empty: none is sent
	refresh time.Duration
	poll    time.Duration // of a file's size and time
	timeout time.Duration
	bytes   int64
	limits  limits

	client *http.Client
	disk   *disk
	gate   chan struct{} // bounds how many are fetched and parsed at once
	now    func() time.Time

	data atomic.Pointer[parsed] // nil until the first good copy

	mu     sync.Mutex
	status sourceStatus
	meta   copyMeta // of the last good copy
	stat   fileStat // of the file when it was last read, successfully or not
}

type sourceStatus struct {
	fetched  time.Time // when the current copy was made
	checked  time.Time // when it was last found up to date
	next     time.Time
	err      error
	failures int  // consecutive
	fromDisk bool // the current copy is the one kept on disk, not yet confirmed
	bad      int  // bad lines of the last attempt, accepted or rejected
	badLines []BadLine
}

type fileStat struct {
	size  int64
	mtime time.Time
}

func (s *source) id() string {
	sum := sha256.Sum256([]byte(s.url + "\x00" + s.file + "\x00" + s.format))
	return s.name + "-" + hex.EncodeToString(sum[:8])
}

func (s *source) restore() error {
	if s.disk == nil {
		return nil
	}
	plain, meta, err := s.disk.load(s.id())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := newParser(s.limits).read(bytes.NewReader(plain), s.format, 0)
	if err != nil {
		return fmt.Errorf("kept copy of %s: %w", s.name, err)
	}
	s.data.Store(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = meta
	s.status.fetched, s.status.checked, s.status.fromDisk = meta.Fetched, meta.Fetched, true
	s.status.bad, s.status.badLines = d.bad, d.badLines
	return nil
}

func (s *source) run(ctx context.Context, changed func(), report func(*source, error)) {
	wait := s.firstWait()
	for {
		s.mu.Lock()
		s.status.next = s.now().Add(wait)
		s.mu.Unlock()
		if !store.Pause(ctx, wait) {
			return
		}
		fresh, after, err := s.update(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			report(s, err)
		}
		if fresh {
			changed()
		}
		wait = s.nextWait(after)
	}
}

// firstWait spares a publisher whose list was fetched shortly before a restart.
func (s *source) firstWait() time.Duration {
	if s.file != "" {
		return s.poll
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.checked.IsZero() {
		return 0
	}
	return min(max(s.refresh-s.now().Sub(s.status.checked), 0), s.refresh)
}

// nextWait is the refresh interval, or after failures 15 s, doubled each time up to an hour, never earlier than the
// server asked for. Both vary by a tenth, so that gateways do not ask at once.
func (s *source) nextWait(after time.Duration) time.Duration {
	s.mu.Lock()
	n := s.status.failures
	s.mu.Unlock()
	if s.file != "" {
		return s.poll
	}
	d := s.refresh
	if n > 0 {
		d = max(min(retryFirst<<min(n-1, 16), retryMost), min(after, 24*time.Hour))
	}
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1))
}

// update requests the list once. fresh says that there is a new copy; after is the server's Retry-After.
func (s *source) update(ctx context.Context) (fresh bool, after time.Duration, err error) {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return false, 0, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.file != "" {
		fresh, err = s.updateFile()
	} else {
		fresh, after, err = s.updateURL(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("timeout after %v", s.timeout)
	}
	s.status.err = err
	if err != nil {
		s.status.failures++
		return fresh, after, err
	}
	s.status.failures = 0
	s.status.checked = s.now()
	s.status.fromDisk = false
	return fresh, 0, nil
}

func (s *source) updateFile() (bool, error) {
	f, err := os.Open(s.file)
	if err != nil {
		s.mu.Lock()
		s.stat = fileStat{}
		s.mu.Unlock()
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !fi.Mode().IsRegular() {
		return false, fmt.Errorf("%s is no regular file", s.file)
	}
	now := fileStat{fi.Size(), fi.ModTime()}
	s.mu.Lock()
	same, old := now == s.stat, s.status.err
	s.mu.Unlock()
	if same {
		return false, old // the same problem still applies
	}
	fresh, err := s.take(f, copyMeta{})
	s.mu.Lock()
	s.stat = now
	s.mu.Unlock()
	return fresh, err
}

func (s *source) updateURL(ctx context.Context) (bool, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return false, 0, hideURL(err)
	}
	req.Header.Set("User-Agent", "antirobot")
	req.Header.Set("Accept-Encoding", "gzip")
	if s.keyFile != "" {
		key, err := readKey(s.keyFile)
		if err != nil {
			return false, 0, err
		}
		req.Header.Set("X-Api-Key", key)
	}
	s.mu.Lock()
	meta := s.meta
	s.mu.Unlock()
	if s.data.Load() != nil {
		if meta.ETag != "" {
			req.Header.Set("If-None-Match", meta.ETag)
		}
		if meta.Modified != "" {
			req.Header.Set("If-Modified-Since", meta.Modified)
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false, 0, hideURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && s.data.Load() != nil:
		return false, 0, nil
	case resp.StatusCode != http.StatusOK:
		secs, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return false, time.Duration(
			min(max(secs, 0), 24*3600),
		) * time.Second, fmt.Errorf("the server answers %d", resp.StatusCode)
	case resp.ContentLength > s.bytes:
		return false, 0, errTooLarge
	}
	body, err := decoded(resp, s.bytes)
	if err != nil {
		return false, 0, hideURL(err)
	}
	fresh, err := s.take(body, copyMeta{ETag: resp.Header.Get("ETag"), Modified: resp.Header.Get("Last-Modified")})
	return fresh, 0, hideURL(err)
}

// take parses a copy, keeps it on disk, and makes it the current one if it is good. fresh is false if it equals the
// current one.
func (s *source) take(r io.Reader, meta copyMeta) (fresh bool, err error) {
	r, err = gunzip(&boundedReader{r: r, left: s.bytes}, s.bytes)
	if err != nil {
		return false, err
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return false, err
	}
	old, prev := s.data.Load(), 0
	if old != nil {
		prev = old.entries
	}
	p := newParser(s.limits)
	d, err := p.read(bytes.NewReader(plain), s.format, prev)
	meta.Fetched, meta.Sum = s.now(), sumOf(plain)
	s.mu.Lock()
	s.status.bad, s.status.badLines = p.out.bad, p.out.badLines
	if err != nil {
		s.mu.Unlock()
		return false, err
	}
	fresh = old == nil || s.meta.Sum != meta.Sum
	s.meta, s.status.fetched = meta, meta.Fetched
	s.mu.Unlock()
	if fresh {
		s.data.Store(d)
	}
	if s.disk == nil {
		return fresh, nil
	}
	return fresh, s.disk.keep(s.id(), plain, meta) // a failing disk is reported, but the list is used all the same
}

func (s *source) describe(ls *ListStats, now time.Time) {
	if ls.Kind = "url"; s.file != "" {
		ls.Kind = "file"
	}
	if d := s.data.Load(); d != nil {
		ls.Loaded, ls.Entries = true, d.entries
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.status
	ls.FromDisk, ls.Fetched, ls.Checked, ls.Next = t.fromDisk, t.fetched, t.checked, t.next
	ls.Failures, ls.Bad, ls.BadLines = t.failures, t.bad, t.badLines
	if !t.checked.IsZero() {
		ls.Age = now.Sub(t.checked)
	}
	if t.err != nil {
		ls.LastError = t.err.Error()
	}
}

const maxRedirects = 5

// newClient makes the client for lists. It uses http and https only, and never goes from https back to http.
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

// hideURL removes the URL from an error: it may carry a token.
func hideURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func decoded(resp *http.Response, limit int64) (io.Reader, error) {
	body := &boundedReader{r: resp.Body, left: limit}
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

// gunzip decompresses a compressed file, whatever its name; limit bounds the plain bytes.
func gunzip(r io.Reader, limit int64) (io.Reader, error) {
	br := bufio.NewReader(r)
	if b, _ := br.Peek(2); len(b) < 2 || b[0] != 0x1F || b[1] != 0x8B {
		return br, nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return &boundedReader{r: z, left: limit}, nil
}

// boundedReader is a reader that fails with errTooLarge instead of ending early.
type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
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
