package redisstore_test

import (
	"testing"

	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
)

// TestServers: a server says what is set there.
func TestServers(t *testing.T) {
	for _, c := range []struct {
		args   []string
		memory int64
		policy string
		logs   bool
	}{
		{nil, 0, "noeviction", false},
		{[]string{"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes"}, 64 << 20, "allkeys-lru", true},
	} {
		srv := redistest.Start(t, c.args...)
		got, err := redisstore.Servers(t.Context(), config(), "redis://"+srv.Addr)
		if err != nil || len(got) != 1 {
			t.Fatalf("%v: %v, %v", c.args, got, err)
		}
		if s := got[0]; s.Address != srv.Addr || s.Version == "" || s.Memory != c.memory || s.Policy != c.policy || s.Logs != c.logs {
			t.Errorf("%v: %+v", c.args, s)
		}
	}
}
