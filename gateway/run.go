package gateway

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"antirobot/config"
	"antirobot/problem"
)

// Run serves until ctx ends or a listener fails. SIGHUP from signals reloads, SIGUSR1 turns the switch "under attack"
// on and SIGUSR2 turns it off. ready, if not nil, is called when all listeners are open.
func (a *Server) Run(ctx context.Context, signals <-chan os.Signal, ready func()) error {
	defer a.Close()
	if err := a.fronts.listen(a.admin.Serve); err != nil {
		return err
	}
	ticking, stop := context.WithCancel(context.Background())
	defer stop()
	if len(a.certs.tickets) > 0 {
		a.fronts.serving.Go(func() { a.certs.turnTickets(ticking) })
	}
	if a.peers != nil {
		a.peers.Start()
	}
	a.log.Info().Strs("hosts", a.Config().Calls()).Msg("hosts that the gateway calls")
	a.logs.Flush()
	if a.certs.acme != nil && a.Config().Role != config.RoleProcessor {
		a.certs.acme.Start()
	}
	if ready != nil {
		ready()
	}
	settled := time.NewTimer(settlesAfter)
	defer settled.Stop()
	for {
		select {
		case <-settled.C:
			settleMemory()
		case s := <-signals:
			if s == syscall.SIGUSR1 || s == syscall.SIGUSR2 {
				a.attack(s == syscall.SIGUSR1)
				continue
			}
			if _, err := a.reload("SIGHUP"); err != nil {
				a.log.Error().Strs("problems", problem.Lines(err)).Msg("reload refused: nothing has changed")
			}
		case err := <-a.fronts.failed:
			a.drain()
			return err
		case <-ctx.Done():
			a.drain()
			return nil
		}
	}
}

// garbagePercent is GOGC. Half of the heap are tables without pointers, made once: collecting earlier than Go's default
// costs little and saves 90 MB (docs/performance.md).
const garbagePercent = 40

// settlesAfter is the delay after the start: settling takes a tenth of a second, and waiting clients come first.
const settlesAfter = time.Minute

// settleMemory sets garbagePercent, unless the environment sets GOGC, and returns memory that only the start needed.
func settleMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	debug.FreeOSMemory()
}

// drain stops taking requests and waits for those in progress.
func (a *Server) drain() {
	a.fronts.draining.Store(true)
	a.log.Info().Dur("delay_ms", a.Config().Delay).Dur("at_most_ms", a.Config().Drain).Msg("draining")
	a.logs.Flush()
	time.Sleep(a.Config().Delay) // balancers ask /readyz, and stop sending requests
	ctx, cancel := context.WithTimeout(context.Background(), a.Config().Drain)
	defer cancel()
	a.fronts.shutdown(ctx)
}

// attack turns the switch "under attack" on for the configured time, or off.
func (a *Server) attack(on bool) {
	var until time.Time
	if !on {
		until = a.began
	}
	over, err := a.judge.Cacher.Attack(context.Background(), until)
	if err != nil {
		a.log.Error().Err(err).Msg("the switch is in force on this node only")
	}
	a.log.Warn().Bool("on", on).Time("until", over).Msg("under attack, by signal")
	a.logs.Flush()
}

// VisitorAddr returns the address of the first listener for visitors, which is open.
func (a *Server) VisitorAddr() string { return a.fronts.visitors[0] }

// AdminAddr returns the address of the private listener, which is open; empty: there is none.
func (a *Server) AdminAddr() string { return a.fronts.admin }

// ConsoleLink returns a link to the console that signs in once. The private listener is open; empty: there is none.
func (a *Server) ConsoleLink() string {
	if a.AdminAddr() == "" {
		return ""
	}
	scheme := "http://"
	if a.Config().Admin.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + a.AdminAddr() + a.console.Link()
}

// Reload reads the configuration, the keys, the models and the certificates again. Everything is prepared and checked
// before anything is put into use: after an error nothing has changed. restart names the keys that need a restart.
func (a *Server) Reload(context.Context) (restart []string, err error) { return a.reload("api") }

func (a *Server) reload(why string) (restart []string, err error) {
	if a.reread == nil {
		return nil, errors.New("this gateway's configuration is not read again")
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next, err := a.reread(a.pushedValues())
	if err != nil {
		return nil, err
	}
	restart = a.Config().NeedRestart(next)
	if err := a.apply(next, a.changes()); err != nil {
		return nil, err
	}
	a.log.Info().Str("by", why).Int("services", len(next.Resolved)).Strs("need_restart", restart).Msg("reloaded")
	a.logs.Flush()
	return restart, nil
}

// change is the reload of one part: prepare does all that can fail and changes nothing; the commit that it returns can't fail.
type change struct {
	of      string
	prepare func(next *config.Config) (commit func(), err error)
}

// changes are the changes of all parts, in the order of their commits: first what judges, then what uses it.
func (a *Server) changes() []change {
	j := a.judge
	return []change{
		{"files", func(next *config.Config) (func(), error) { return func() {}, next.CheckFiles() }},
		{"certificates", a.certs.prepare},
		{"keys", a.storage.prepareKeys},
		{"lists", func(next *config.Config) (func(), error) { return at("lists")(j.Lists.Prepare(next.Lists)) }},
		{"places", func(next *config.Config) (func(), error) { return at("geo")(j.places.Prepare(next.Geo)) }},
		{"identity", func(next *config.Config) (func(), error) { return at("identity")(j.Resolver.Prepare(next.Identity)) }},
		{"models", func(next *config.Config) (func(), error) {
			models, err := config.LoadModels(next.Formula)
			if err != nil {
				return nil, err
			}
			return func() { j.formula.Use(models) }, nil
		}},
		{"messages", a.messages.prepare},
		{"services", a.prepareServices},
		{"http", a.fronts.prepare},
		{"check", a.fronts.checks.prepare},
	}
}

func at(section string) func(commit func(), err error) (func(), error) {
	return func(commit func(), err error) (func(), error) {
		if err != nil {
			return nil, problem.At(section, err)
		}
		return commit, nil
	}
}

// prepare prepares all changes, and changes nothing itself.
func (a *Server) prepare(next *config.Config, changes []change) ([]func(), error) {
	a.Config().CarryOver(next)
	commits := make([]func(), 0, len(changes))
	for _, c := range changes {
		commit, err := c.prepare(next)
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	return commits, nil
}

func (a *Server) apply(next *config.Config, changes []change) error {
	defer a.forgetGone()
	commits, err := a.prepare(next, changes)
	if err != nil {
		return err
	}
	commitAll(commits)()
	a.cfg.Store(next)
	setLogLevel(next.Log.Level)
	a.warn(next)
	return nil
}

// commitAll returns a commit that makes all commits, in order.
func commitAll(commits []func()) func() {
	return func() {
		for _, commit := range commits {
			commit()
		}
	}
}

// prepareServices makes the next Snapshot: the captcha, the services and their connection pools.
func (a *Server) prepareServices(cfg *config.Config) (func(), error) {
	next, err := a.judge.prepare(cfg)
	if err != nil {
		return nil, err
	}
	carry, err := a.link.prepare(next.services, a.judge)
	if err != nil {
		return nil, err
	}
	serve, err := a.proxy.Prepare(next.Snapshot())
	if err != nil {
		return nil, err
	}
	return commitAll([]func(){next.commit, carry, serve}), nil
}
