package admin

import (
	"path/filepath"
)

// backup writes a copy of the data directory into a new directory of the gateway's machine.
func (s *gatewayCalls) backup(c *call) (any, error) {
	var q struct {
		Dir string `json:"dir"`
	}
	if err := decode(c.RequestCtx, &q); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(q.Dir) {
		return nil, badField("dir", "%q is no absolute path of a directory to be made", q.Dir)
	}
	if err := s.deps.Gateway.Backup(q.Dir); err != nil {
		return nil, badField("dir", "%.60s: no backup was made: %v", q.Dir, err)
	}
	return map[string]string{"dir": q.Dir}, nil
}
