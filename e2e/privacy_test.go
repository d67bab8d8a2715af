package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"antirobot/request"
)

// TestPitfall15NothingSecretOnDisk: of what visitors send, the data directory keeps addresses and paths, and neither queries, forms,
// cookies nor passwords. Files of its own have mode 0600, or lie where nobody else can look.
func TestPitfall15NothingSecretOnDisk(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--captcha-test-answer", testAnswer, "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
journal: {humans: 1}
processor: {training: {sample: 1}}
services: [{name: site, upstream: {urls: [%q]}}]
`, site(t).URL))
	const addr = "203.0.113.1"
	secrets := []string{"queryqmnt", "cookieqmnt", "formqmnt", "basicqmnt", "refererqmnt", "fragmentqmnt", "wrongqmnt", "agentless-key-qmnt"}
	fields := []string{
		"Cookie", "session=cookieqmnt; spravka=cookieqmnt; i=cookieqmnt; fuid01=cookieqmnt", "Authorization", "Basic basicqmnt", "X-Api-Key", "agentless-key-qmnt",
		"Referer", "https://elsewhere.example/from?refererqmnt#fragmentqmnt",
	}
	v := from(t, addr)
	v.get(g.url+"/diskpath?q=queryqmnt", fields...).must(t, 200, "")
	g.ban("ip:"+addr, "10m")
	stopped := v.get(g.url+"/diskpath?q=queryqmnt", fields...).must(t, 302, "")
	page := v.do("POST", g.url+"/post?q=queryqmnt", "text=formqmnt", append(fields, "Content-Type", form)...).must(t, 200, `name="rep"`)
	answer := formOf(t, page.body)
	answer.Set("rep", "wrongqmnt")
	v.do("POST", g.url+"/checkcaptcha", answer.Encode(), append(fields, "Content-Type", form)...)
	v.get(stopped.Header.Get("Location"))
	g.earn(v, "/diskpath?q=queryqmnt")
	secrets = append(secrets, v.pass(t, g.url))
	v.get(g.url + "/diskpath?q=queryqmnt")
	g.kill(syscall.SIGTERM) // writes everything out

	query := []byte("q=queryqmnt")
	for _, known := range []uint64{request.Hash(query), new(request.HashKey).Sum(query)} {
		if log := g.logs.String(); !strings.Contains(log, "query_hash") || strings.Contains(log, fmt.Sprintf(`"query_hash":"%08x"`, uint32(known))) {
			t.Error("the log has no hash of the query, or one that anybody can make of what it may have been")
		}
	}
	seen := false
	err := filepath.WalkDir(g.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() && name != g.dir && info.Mode().Perm() != 0o700 || filepath.Dir(name) == g.dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		seen = seen || strings.Contains(name, "journal") && bytes.Contains(b, []byte("/diskpath"))
		for _, s := range secrets {
			if bytes.Contains(b, []byte(s)) {
				t.Errorf("%s has %s", name, s)
			}
		}
		return nil
	})
	if err != nil || !seen {
		t.Errorf("the journal has no path, so this test sees nothing: %v", err)
	}
}

// TestErasedIsNowhere: one call erases what is remembered of a visitor (docs/privacy.md), the last decisions too.
func TestErasedIsNowhere(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services: [{name: site, upstream: {urls: [%q]}}]
`, site(t).URL))
	const addr, other = "203.0.113.1", "203.0.113.2"
	known := func(id string) bool {
		status, _ := g.tryAPI("GET", "/api/decisions/"+id, nil)
		return status == 200
	}
	remembered := func(addr string) bool {
		return strings.Contains(string(g.api("GET", "/api/journal?subject=ip:"+addr, nil)), "/erasedpath")
	}
	ids := map[string]string{}
	for _, a := range []string{addr, other} {
		g.ban("ip:"+a, "10m")
		ids[a] = from(t, a).get(g.url+"/erasedpath").must(t, 302, "").Header.Get("X-Request-Id")
		if !known(ids[a]) {
			t.Fatal("the decision is not remembered: this test sees nothing")
		}
		eventually(t, "the journal has it", func() bool { return remembered(a) })
	}
	g.api("POST", "/api/labels", map[string]string{"subject": "ip:" + addr, "label": "robot"})

	g.api("DELETE", "/api/subjects/ip:"+addr, nil)
	if known(ids[addr]) || remembered(addr) {
		t.Errorf("known of who was erased: the decision %t, the journal %t", known(ids[addr]), remembered(addr))
	}
	if what := string(g.api("GET", "/api/subjects/ip:"+addr, nil)); strings.Contains(what, "session") || strings.Contains(what, "203.0.113.1\",\"until") {
		t.Errorf("still known: %s", what)
	}
	if all := string(g.api("GET", "/api/labels", nil)) + string(g.api("GET", "/api/bans", nil)); strings.Contains(all, addr) {
		t.Errorf("still labelled or banned: %s", all)
	}
	if !known(ids[other]) || !remembered(other) {
		t.Error("somebody else was erased, too")
	}
}
