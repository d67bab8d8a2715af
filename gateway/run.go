package gateway

import (
	"context"
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
