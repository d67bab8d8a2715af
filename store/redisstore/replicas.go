package redisstore

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

const slots = 16384

// topology says which shard has which slot, and which shards have no replica to wait for. Every look at the servers
// rebuilds it; in between, a shard whose replicas did not answer in time counts as having none.
type topology struct {
	shardOf [slots]uint16
	alone   []atomic.Bool
}

// waits reports whether a write to a slot should wait for a replica, and returns the flag to set if none answers.
func (t *topology) waits(slot uint16) (*atomic.Bool, bool) {
	shard := uint16(0)
	if slot < slots { // a single server has no slots
		shard = t.shardOf[slot]
	}
	alone := &t.alone[shard]
	return alone, !alone.Load()
}

// look asks every master how many replicas it has.
func (s *Store) look(ctx context.Context, cl rueidis.Client) {
	nodes := cl.Nodes()
	t := &topology{alone: make([]atomic.Bool, len(nodes)+1)}
	for i := range t.alone {
		t.alone[i].Store(true)
	}
	if s.addr.Cluster {
		for i := range t.shardOf {
			t.shardOf[i] = uint16(len(nodes)) //nolint:gosec // far fewer
		}
	}
	owners := s.owners(ctx, cl)
	total, shard := int64(0), uint16(0)
	for addr, node := range nodes {
		info, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToString()
		if err != nil || !strings.Contains(info, "role:master") {
			continue // a replica, or unavailable
		}
		s.meet(infoField(info, "master_replid"))
		n, _ := strconv.ParseInt(infoField(info, "connected_slaves"), 10, 64) // 0 on error: not waited for
		total += n
		t.alone[shard].Store(n < int64(s.cfg.WaitReplicas))
		for _, r := range owners[addr] {
			for slot := r[0]; slot <= r[1] && slot < slots; slot++ {
				t.shardOf[slot] = shard
			}
		}
		shard++
	}
	s.replicas.Store(total)
	s.topology.Store(t)
}

func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\r\n"+name+":")
	line, _, _ := strings.Cut(rest, "\r\n")
	return line
}

// meet records a master by its replication ID. An unknown master may have lost its predecessor's writes: it is a promoted
// replica, or a server that started from scratch.
func (s *Store) meet(replid string) {
	if replid == "" || s.replids[replid] {
		return
	}
	if len(s.replids) >= maxReplids {
		clear(s.replids)
	}
	s.replids[replid] = true
	s.owed.again()
	s.era.Add(1)
}

// maxReplids bounds how many masters are remembered; beyond it all are forgotten, and each is new once more.
const maxReplids = 4096

// owners returns the slot ranges of each master of a cluster.
func (s *Store) owners(ctx context.Context, cl rueidis.Client) map[string][][2]int64 {
	if !s.addr.Cluster {
		return nil
	}
	ranges, err := cl.Do(ctx, cl.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	out := map[string][][2]int64{}
	for i := range ranges {
		r, err := ranges[i].ToArray()
		if err != nil || len(r) < 3 {
			continue
		}
		master, err := r[2].ToArray()
		if err != nil || len(master) < 2 {
			continue
		}
		from, err1 := r[0].AsInt64()
		to, err2 := r[1].AsInt64()
		host, err3 := master[0].ToString()
		port, err4 := master[1].AsInt64()
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || from < 0 {
			continue
		}
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		out[addr] = append(out[addr], [2]int64{from, to})
	}
	return out
}
