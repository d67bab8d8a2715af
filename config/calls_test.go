package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCalls: every host that may be called is named, and no secret of a URL with it.
func TestCalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	if err := os.WriteFile(file, []byte(`
listen: [{address: ":443", acme: true}]
tls: {acme: {hosts: [www.example.com], directory: "https://ca.example/dir"}}
store: {url: "redis-cluster://user:secret@r1:7000,r2:7000"}
keys: {secret_file: /dev/null}
traces: {endpoint: "https://spans.example/v1/traces"}
admin: {url: "https://gate.example", oidc: {issuer: "https://id.example/realm", client_id: gate, roles: {admin: [ops]}}}
lists:
  lists: [{name: tor, flag: ban, url: "https://lists.example/tor.txt"}]
  crawlers: {builtin: [bingbot, yandex], fetch_ranges: true}
services:
  - {name: a, hosts: [a.example], upstream: {urls: ["http://127.0.0.1:3000"]}}
  - {name: b, upstream: {urls: ["http://api.internal:8080"]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := (&Sources{File: file}).Read()
	if cfg == nil {
		t.Fatal(err)
	}
	want := []string{"127.0.0.1:3000", "api.internal:8080", "ca.example", "id.example", "lists.example", "r1:7000", "r2:7000", "spans.example", "www.bing.com"}
	if got := cfg.Calls(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
