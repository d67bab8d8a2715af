package cbb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// readDecisions collects the decisions of CrowdSec's local API (GET /v1/decisions): an array, or null if there are none. What
// concerns addresses and networks becomes an entry, with its scenario as the reason; decisions about other things, such as users and
// countries, are left out, and so are simulated ones.
func (p *parser) readDecisions(r io.Reader) error {
	dec := json.NewDecoder(r)
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("crowdsec: %w", unexpected(err))
	}
	if tok == nil {
		return nil
	}
	if tok != json.Delim('[') {
		return errors.New("crowdsec: no array of decisions")
	}
	for n := 1; dec.More(); n++ {
		var d struct {
			Scope     string `json:"scope"`
			Value     string `json:"value"`
			Scenario  string `json:"scenario"`
			Simulated bool   `json:"simulated"`
		}
		if err := dec.Decode(&d); err != nil {
			return fmt.Errorf("crowdsec: %w", unexpected(err))
		}
		if scope := strings.ToLower(d.Scope); d.Simulated || scope != "ip" && scope != "range" {
			continue
		}
		p.lines++
		err := fmt.Errorf("value of %d bytes, the limit is %d", len(d.Value), maxLine)
		if len(d.Value) <= maxLine {
			err = p.entry(d.Value, cleanReason(d.Scenario))
		}
		if err != nil {
			p.reject(n, d.Value[:min(len(d.Value), 64)], err)
		}
		if p.err != nil {
			return p.err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("crowdsec: %w", unexpected(err))
	}
	return nil
}

// unexpected says that an end of the data is too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxKey bounds a bouncer's key, in bytes.
const maxKey = 4 << 10

// readKey reads a bouncer's key, each time it is sent, so that it can be changed.
func readKey(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("key_file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("key_file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("key_file: %s holds no key of printable characters", file)
	}
	return key, nil
}
