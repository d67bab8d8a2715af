package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Server is what a server of the store says of itself.
type Server struct {
	Address string // host:port
	Version string
	Memory  int64  // bytes that it may use; 0: as many as the machine has
	Policy  string // what it does when it has used them: maxmemory-policy
	Logs    bool   // what is written is in a file (appendonly), so that a restart forgets nothing
}

// Servers asks every master at an address, in the form that ParseURL reads, how it is set up, in the order of their addresses. It changes nothing
// there, and needs no right beyond those of the store.
func Servers(ctx context.Context, cfg Config, url string) ([]Server, error) {
	addr, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	option, err := options(addr, &cfg)
	if err != nil {
		return nil, err
	}
	cl, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", addr, err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	var all []Server
	for name, node := range cl.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil {
			return nil, fmt.Errorf("redis: ask %s: %w", name, err)
		}
		if !strings.Contains(info, "role:master") {
			continue
		}
		s := Server{Address: name, Version: infoField(info, "redis_version"), Policy: infoField(info, "maxmemory_policy"), Logs: infoField(info, "aof_enabled") == "1"}
		s.Memory, _ = strconv.ParseInt(infoField(info, "maxmemory"), 10, 64) // a server that does not say has no limit that it knows
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Address, b.Address) })
	return all, nil
}
