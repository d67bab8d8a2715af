// Package geo says in which country an address is and to which autonomous system it belongs, by files that the
// operator has put there: MMDB databases (GeoLite2, DB-IP, IPinfo and others) or the table of iptoasn.com. None comes
// with the gateway, and none is fetched.
//
// Invariants:
//  1. Place reads what is in memory: it does not wait, takes no lock, and allocates nothing once warm.
//  2. A file is read as a whole before it is used, and never mapped, so that it may be overwritten at any time. One
//     that is missing or damaged changes nothing: the last good copy goes on, and without one nothing is known.
package geo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

// Config says which files tell where addresses are.
type Config struct {
	// Files may each say the country, the autonomous system, or both; the first that knows counts.
	Files []string `mapstructure:"files"`
}

// DefaultConfig returns no files.
func DefaultConfig() Config { return Config{} }

const (
	maxFiles = 16
	maxBytes = 256 << 20 // of one file, unpacked
	poll     = 10 * time.Second
)

// Validate returns all problems, each with the path of its key. It reads no file.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Files) > maxFiles {
		errs = append(errs, fmt.Errorf("files: %d are too many, the limit is %d", len(c.Files), maxFiles))
	}
	for i, f := range c.Files {
		if f == "" {
			errs = append(errs, fmt.Errorf("files[%d]: is empty", i))
		}
	}
	return errors.Join(errs...)
}

// Place is the location of an address; unknown fields are empty.
type Place struct {
	Country string // two capital letters, ISO 3166-1
	ASN     uint32 // number of the autonomous system
	Org     string // its owner
}

// add fills in what p lacks.
func (p *Place) add(q Place) {
	if p.Country == "" {
		p.Country = q.Country
	}
	if p.ASN == 0 && q.ASN != 0 {
		p.ASN, p.Org = q.ASN, q.Org
	}
}

// database is the content of one file.
type database interface {
	find(addr netip.Addr) Place
}

// Deps is what Places works with.
type Deps struct {
	Log     zerolog.Logger
	Metrics *metrics.Set // nil: no metrics
}

// Places knows where addresses are. Make it with New; safe for concurrent use.
type Places struct {
	poll   time.Duration // how often files are checked for changes
	log    zerolog.Logger
	failed *metrics.Counter

	now atomic.Pointer[snapshot]

	mu     sync.Mutex // orders Start, Close, refreshing and new configurations
	cfg    Config
	files  []fileState // of the files of cfg
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// snapshot is what Place reads; it is immutable.
type snapshot struct {
	all []database // by file; nil: there is no good copy yet
}

// fileState is how a file was when it was last looked at.
type fileState struct {
	size  int64
	mtime time.Time
	err   string // its error, as it was logged
}

// New reads the files of a valid configuration. A file that can't be read is logged, and looked for again and again
// once Start was called.
func New(cfg Config, d Deps) (*Places, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Places{poll: poll, log: d.Log, failed: new(metrics.Counter)}
	if d.Metrics != nil {
		p.failed = d.Metrics.NewCounter("antirobot_geo_failures_total")
	}
	p.now.Store(&snapshot{})
	p.use(cfg)
	return p, nil
}

// use reads the files of cfg; mu is held, or p is new.
func (p *Places) use(cfg Config) {
	old := p.now.Load()
	next := &snapshot{all: make([]database, len(cfg.Files))}
	files := make([]fileState, len(cfg.Files))
	for i, name := range cfg.Files {
		if k := slices.Index(p.cfg.Files, name); k >= 0 {
			next.all[i], files[i] = old.all[k], p.files[k]
		}
	}
	p.cfg, p.files = cfg, files
	p.now.Store(next)
	p.refresh()
}

// refresh reads the files that have changed; mu is held, or p is new. An error of a file is logged once.
func (p *Places) refresh() {
	for i, name := range p.cfg.Files {
		is := &p.files[i]
		db, err := is.load(name, maxBytes)
		switch {
		case err != nil && err.Error() != is.err:
			is.err = err.Error()
			p.failed.Inc()
			p.log.Warn().
				Err(err).Str("file", name).Bool("last_good_copy", p.now.Load().all[i] != nil).
				Msg("a file of places was not read")
		case err == nil && db != nil:
			is.err = ""
			next := &snapshot{all: slices.Clone(p.now.Load().all)}
			next.all[i] = db
			p.now.Store(next)
			p.log.Info().Str("file", name).Msg("a file of places was read")
		}
	}
}

// load reads a file that is not as it was; nil: it is.
func (f *fileState) load(name string, most int64) (database, error) {
	info, err := os.Stat(name)
	if err != nil {
		f.size, f.mtime = -1, time.Time{}
		return nil, err
	}
	if f.size == info.Size() && f.mtime.Equal(info.ModTime()) {
		return nil, nil //nolint:nilnil // nothing new is no error
	}
	f.size, f.mtime = info.Size(), info.ModTime()
	return open(name, most)
}

// Prepare checks a new configuration, and returns what puts it into use. Files that stay are not read again.
func (p *Places) Prepare(cfg Config) (commit func(), err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !reflect.DeepEqual(cfg, p.cfg) {
			p.use(cfg)
		}
	}, nil
}

// Start begins to look after the files, until Close.
func (p *Places) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		return errors.New("start places: already started")
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.work.Go(func() {
		for p.sleep(ctx) {
			p.mu.Lock()
			p.refresh()
			p.mu.Unlock()
		}
	})
	return nil
}

// sleep waits for the next look; false: it is over.
func (p *Places) sleep(ctx context.Context) bool {
	p.mu.Lock()
	t := time.NewTimer(p.poll)
	p.mu.Unlock()
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close ends the work of Start.
func (p *Places) Close() error {
	p.mu.Lock()
	cancel := p.cancel
	p.mu.Unlock()
	if cancel != nil {
		cancel()
		p.work.Wait()
	}
	return nil
}

// Find returns what the files say of an address.
func (p *Places) Find(addr netip.Addr) (found Place) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return found
	}
	for _, db := range p.now.Load().all {
		if db != nil {
			found.add(db.find(addr))
		}
	}
	return found
}

// Known reports whether there are files at all.
func (p *Places) Known() bool { return len(p.now.Load().all) > 0 }

// Place is rules.Places.
func (p *Places) Place(addr netip.Addr) (country string, asn uint32) {
	at := p.Find(addr)
	return at.Country, at.ASN
}

// String is as antirobot why prints it: "DE, AS64500 Example Org".
func (p Place) String() string {
	s := p.Country
	if p.ASN != 0 {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("AS%d", p.ASN)
		if p.Org != "" {
			s += " " + p.Org
		}
	}
	return s
}
