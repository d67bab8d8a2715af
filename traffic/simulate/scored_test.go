//go:build !race

package main

import (
	"context"
	"testing"

	"antirobot/config"
	"antirobot/replay"
	"antirobot/traffic"
)

// scored returns what becomes of made-up traffic at a server.
func scored(t *testing.T, cfg traffic.Config, server traffic.Server) *traffic.Score {
	t.Helper()
	score := &traffic.Score{Begin: cfg.Begin}
	err := traffic.Run(context.Background(), cfg, server, nil, func(q *traffic.Request, s *replay.Served) error {
		score.Add(q, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return score
}

// rehearsed returns what becomes of it at a gateway with all defaults.
func rehearsed(t *testing.T, cfg traffic.Config, d replay.Deps) *traffic.Score {
	t.Helper()
	r, err := newTrafficRehearsal("", &cfg, d, func(*config.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	return scored(t, cfg, r)
}
