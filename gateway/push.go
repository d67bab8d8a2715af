package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/config/pushed"
	"antirobot/store"
)

// How often a gateway looks which version is in force, tells what it runs, and tries again what it could not take; and
// how long it waits for the store.
const (
	pushEvery   = 2 * time.Second
	pushTell    = time.Minute
	pushAgain   = 30 * time.Second
	pushTimeout = 5 * time.Second
)

// pushes is the part of a gateway that takes its configuration from the store.
type pushes struct {
	a        *Server
	versions *pushed.Versions
	dir      string // of the versions that are unpacked, and the copy of the last good one
	log      zerolog.Logger
	stop     context.CancelFunc
	done     sync.WaitGroup

	turn sync.Mutex // one look, push or rollback at a time

	mu    sync.Mutex
	node  pushed.Node // At is when it was told
	force uint64      // the version in force at the last look
	tried time.Time   // when the one that Error speaks of was tried
}

// openPush takes the version in force, or the last good one if the store is away, and follows the store from then on.
func (a *Server) openPush() error {
	secret, err := a.Config().Keys.Secret()
	if err != nil && a.Config().Store.Shared() {
		return nil // with a ring from a file there is no secret: nothing can be pushed
	}
	p := &pushes{
		a: a, versions: &pushed.Versions{KV: a.storage.store, Secret: secret}, dir: a.inDataDir("pushed"),
		log:  a.Logger("push"),
		node: pushed.Node{Name: a.name()},
	}
	if a.reread == nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	if p.look(ctx) != nil || p.state().Error != "" {
		p.lastGood()
	}
	a.pushes = p
	a.set.RegisterMetricsWriter(p.writeMetrics)
	p.done.Go(func() { p.follow(ctx) })
	return nil
}

func (a *Server) closePush() error {
	if a.pushes != nil {
		a.pushes.stop()
		a.pushes.done.Wait()
	}
	return nil
}

func (p *pushes) follow(ctx context.Context) {
	store.Every(ctx, pushEvery, func() {
		_ = p.look(ctx) // the store's own health tells
	})
}

func (p *pushes) state() pushed.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// look takes the version in force if another one runs, and tells what runs. An error is of the store.
func (p *pushes) look(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	asked, cancel := context.WithTimeout(ctx, pushTimeout)
	x, err := p.versions.Index(asked)
	cancel()
	if err != nil {
		return err
	}
	p.mu.Lock()
	same := x.InForce == p.node.Version
	wait := !same && p.force == x.InForce && p.node.Error != "" && time.Since(p.tried) < pushAgain
	tell := time.Since(p.node.At) > pushTell
	p.force = x.InForce
	p.mu.Unlock()
	if !same && !wait {
		p.ran(x.InForce, p.take(ctx, x.InForce))
		tell = true
	} else if same {
		p.ran(x.InForce, nil)
	}
	if tell {
		p.tell(ctx)
	}
	return nil
}

// tell tells the others what runs here; if the store does not take it, the next look does it again.
func (p *pushes) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	node := p.state()
	node.At = time.Now()
	if p.versions.Report(ctx, &node) != nil {
		node.At = time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node.At = node.At
}

func (p *pushes) ran(number uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.node.Version != number {
			p.log.Info().Uint64("version", number).Msg("this configuration was pushed, and runs")
		}
		p.node.Version, p.node.Error = number, ""
		return
	}
	p.tried, p.node.Error = time.Now(), err.Error()
	p.log.Error().Err(err).Uint64("version", number).Uint64("runs",
		p.node.Version).Msg("the configuration that was pushed is not taken; the last good one goes on")
}

// take puts a version into use, or none; on an error nothing has changed.
func (p *pushes) take(ctx context.Context, number uint64) error {
	if number == 0 {
		if err := p.a.usePushed(nil, true); err != nil {
			return err
		}
		return p.keep(0, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	b, err := p.versions.Bundle(ctx, number)
	cancel() // using it may take longer
	if err != nil {
		return err
	}
	return p.use(number, b)
}

func (p *pushes) use(number uint64, b *pushed.Bundle) error {
	values, err := p.unpack(strconv.FormatUint(number, 10), b)
	if err != nil {
		return err
	}
	if err := p.a.usePushed(values, true); err != nil {
		return err
	}
	return p.keep(number, b)
}

func (p *pushes) unpack(name string, b *pushed.Bundle) (map[string]any, error) {
	dir := filepath.Join(p.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	values, err := b.Unpack(dir)
	if err != nil {
		return nil, err
	}
	return values, config.CheckPushed(values)
}

// copyName is the file with the last good bundle: its number, a new line, and its encoding.
const copyName = "last-good"

// keep writes the copy for a start without the store, and removes the files of other versions.
func (p *pushes) keep(number uint64, b *pushed.Bundle) error {
	if b == nil {
		return os.RemoveAll(p.dir)
	}
	text, err := b.Encode()
	if err != nil {
		return err
	}
	name := strconv.FormatUint(number, 10)
	file := filepath.Join(p.dir, copyName)
	if err := os.WriteFile(file+".new", append([]byte(name+"\n"), text...), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	entries, err := os.ReadDir(p.dir)
	for _, e := range entries {
		if e.IsDir() && e.Name() != name {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p.dir, e.Name())))
		}
	}
	return err
}

// lastGood takes the copy, if there is one.
func (p *pushes) lastGood() {
	text, err := os.ReadFile(filepath.Join(p.dir, copyName))
	if err != nil {
		return // nothing was pushed before
	}
	name, rest, _ := strings.Cut(string(text), "\n")
	number, err := strconv.ParseUint(name, 10, 64)
	if err == nil {
		var b *pushed.Bundle
		if b, err = pushed.Decode([]byte(rest)); err == nil {
			err = p.use(number, b)
		}
	}
	p.ran(number, err)
}

// pushedValues are those that stand over the file now.
func (a *Server) pushedValues() map[string]any {
	if v := a.pushed.Load(); v != nil {
		return *v
	}
	return nil
}

// usePushed reads the configuration with other pushed values, and puts it into use if commit is set. On an error
// nothing has changed.
func (a *Server) usePushed(values map[string]any, commit bool) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next, err := a.reread(values)
	if err != nil {
		return err
	}
	if !commit {
		_, err = a.prepare(next, a.changes())
		return err
	}
	if err := a.apply(next, a.changes()); err != nil {
		return err
	}
	a.pushed.Store(&values)
	a.logs.Flush()
	return nil
}

// Push implements admin.Pushes: what this gateway can't run is not kept.
func (p *pushes) Push(ctx context.Context, b *pushed.Bundle, v pushed.Version) (pushed.Version, error) {
	p.turn.Lock()
	values, err := p.unpack("tried", b)
	if err == nil {
		err = p.a.usePushed(values, false)
	}
	if err = errors.Join(err, os.RemoveAll(filepath.Join(p.dir, "tried"))); err != nil {
		p.turn.Unlock()
		return v, &admin.RefusedConfig{Err: err}
	}
	v, err = p.versions.Add(ctx, b, v)
	p.turn.Unlock()
	if err != nil {
		return v, err
	}
	return v, p.look(ctx)
}

// Rollback implements admin.Pushes.
func (p *pushes) Rollback(ctx context.Context, to *uint64) (uint64, error) {
	x, err := p.versions.Index(ctx)
	if err != nil {
		return 0, err
	}
	number := x.Before()
	if to != nil {
		number = *to
	} else if x.InForce == 0 {
		return 0, fmt.Errorf("%w: nothing that was pushed is in force", pushed.ErrNoVersion)
	}
	if err := p.versions.Use(ctx, number); err != nil {
		return 0, err
	}
	return number, p.look(ctx)
}

// Pushed implements admin.Pushes.
func (p *pushes) Pushed(ctx context.Context) (s admin.PushState, err error) {
	x, err := p.versions.Index(ctx)
	if err != nil {
		return s, err
	}
	s.InForce, s.Versions, s.Runs, s.Error = x.InForce, x.Versions, p.state().Version, p.state().Error
	s.Gateways, err = p.versions.Nodes(ctx)
	return s, err
}

func (p *pushes) writeMetrics(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	metrics.WriteGaugeUint64(w, "antirobot_push_version", p.node.Version)
	metrics.WriteGaugeUint64(w, "antirobot_push_in_force", p.force)
	refused := uint64(0)
	if p.node.Error != "" {
		refused = 1
	}
	metrics.WriteGaugeUint64(w, "antirobot_push_refused", refused)
}
