package redisstore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// docsACL returns the line of docs/scaling.md that creates the gateways' user, with a password.
func docsACL(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/scaling.md")
	must(t, err)
	m := regexp.MustCompile("(?s)```acl\n(.*?)```").FindSubmatch(text)
	if m == nil || !strings.Contains(string(m[1]), ">PASSWORD ") {
		t.Fatal("docs/scaling.md has no line of an ACL with >PASSWORD")
	}
	return strings.ReplaceAll(string(m[1]), "PASSWORD", "secret")
}

// refusals returns what the server has refused its users so far.
func refusals(t *testing.T, r *redistest.Server, as ...string) string {
	t.Helper()
	return r.CLI(t, append(as, "acl", "log")...)
}

// TestACL runs the conformance suites as the user of the docs, on a server whose only other user may do nothing but check
// whether something was refused.
func TestACL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	must(t, os.WriteFile(file, []byte("user default off\nuser watcher on >seen resetkeys -@all +acl|log\n"+docsACL(t)), 0o600))
	r := redistest.Start(t, "--aclfile", file)
	url := "redis://antirobot:secret@" + r.Addr
	conforms(t, url, 5)
	s := open(t, url, config())
	must(t, s.Put(bg, []byte("k"), []byte("v"), 10*time.Millisecond))
	servertest.Eventually(t, "it expires", func() bool { _, err := s.Get(bg, nil, []byte("k")); return err != nil })
	must(t, s.Reap(bg))
	if n := metric(t, s, "antirobot_redis_index_cleared_total"); n != 1 {
		t.Errorf("the index is not cleared of what has expired: %v", n)
	}
	e := s.Events(1, time.Hour)
	must(t, e.Append(bg, []int{0, 0}, [][]byte{{1}, {2}}))
	end, err := e.End(bg, 0)
	must(t, err)
	must(t, e.Trim(bg, 0, end))
	var left []string
	must(t, e.Read(bg, 0, "", time.Second, func(pos string, _ []byte) { left = append(left, pos) }))
	if len(left) != 1 || left[0] != end {
		t.Errorf("after all but the last batch were dropped there are %v, want %s", left, end)
	}
	if err := s.Healthy(); err != nil {
		t.Error(err)
	}
	if got := refusals(t, r, "--no-auth-warning", "--user", "watcher", "--pass", "seen"); got != "" {
		t.Errorf("the server refused:\n%s", got)
	}
	other := config()
	other.KeyPrefix = "other"
	if err := open(t, url, other).Put(bg, []byte("k"), nil, 0); err == nil {
		t.Error("the user may write what is not the gateways'")
	}
}

// TestACLWithReplicas: the user of the docs may ask a server for its replicas, wait for them, be sent to a master by
// sentinels, and discover a cluster's topology.
func TestACLWithReplicas(t *testing.T) {
	t.Parallel()
	user := append([]string{"acl", "setuser"}, strings.Fields(docsACL(t))[1:]...)
	r := redistest.Start(t)
	redistest.StartReplica(t, r)
	r.CLI(t, user...)
	s := open(t, "redis://antirobot:secret@"+r.Addr, config())
	servertest.Eventually(t, "a write is on the replica in time", func() bool {
		must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
		return metric(t, s, "antirobot_redis_replicas") == 1 && metric(t, s, "antirobot_redis_replicated_total") > 0
	})
	watch := redistest.StartSentinel(t, r)
	s = open(t, "redis-sentinel://antirobot:secret@"+watch.Addr+"/main", config())
	must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
	if got := refusals(t, r); got != "" {
		t.Errorf("the server refused:\n%s", got)
	}
	c := redistest.StartCluster(t, 3, 0)
	for _, r := range c.Servers {
		r.CLI(t, user...)
	}
	s = open(t, strings.Replace(c.URL(), "://", "://antirobot:secret@", 1), config())
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		must(t, s.Put(bg, []byte(k), []byte("v"), 0))
	}
	if n := metric(t, s, "antirobot_redis_up"); n != 1 {
		t.Errorf("up is %v: %v", n, s.Healthy())
	}
	for _, r := range c.Servers {
		if got := refusals(t, r); got != "" {
			t.Errorf("%s refused:\n%s", r.Addr, got)
		}
	}
}
