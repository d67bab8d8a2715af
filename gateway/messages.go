package gateway

import (
	"context"
	"errors"
	"sync"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/message"
	"antirobot/message/queue"
	"antirobot/message/rpc"
	"antirobot/message/second"
	"antirobot/problem"
	"antirobot/rules"
	"antirobot/rules/sources"
)

type messages struct {
	*base
	keeper  *message.Keeper
	queue   *queue.Queue // of messages that wait for a person
	seconds *second.Opinions

	once sync.Once
	err  error
	rpc  *rpc.Server
}

// open starts the message firewall with the rules, models and logs of the store.
func (m *messages) open(s *storage, j *Judge) error {
	cfg := m.Config()
	names, err := cfg.RuleNames()
	if err != nil {
		return problem.At("formula", err)
	}
	m.keeper, err = message.NewKeeper(cfg.Message, message.Deps{
		Store: s.store, Log: m.Logger("message"), Metrics: m.set,
		Counters: sources.NewCounters(j.counters, nil), Lists: sources.NewLists(j.Lists, nil), Formulas: names.Formulas,
		Places: j.places,
		Names:  func() (lists []rules.List, places bool) { return sources.Named(j.Lists.Names()), j.places.Known() },
	})
	if err != nil {
		return err
	}
	m.queue, err = queue.New(cfg.Message.Queue, queue.Deps{
		Store: s.store, Keys: s.keys, Now: s.store.Now, Log: m.Logger("queue"), Metrics: m.set,
	})
	if err != nil {
		return err
	}
	m.seconds, err = second.New(cfg.Message.SecondOpinions, second.Deps{Log: m.Logger("second"), Metrics: m.set})
	if err != nil {
		return err
	}
	return m.keeper.Start(context.Background())
}

func (m *messages) close() error { return errors.Join(m.seconds.Close(), m.keeper.Close()) }

func (m *messages) prepare(next *config.Config) (commit func(), err error) {
	names, err := next.RuleNames()
	if err != nil {
		return nil, problem.At("formula", err)
	}
	return m.keeper.Prepare(names.Formulas)
}

// startDeliveries begins to deliver approved messages.
func (a *Server) startDeliveries() error {
	a.messages.queue.Start(a.proxy.NewDelivery(a.Config().Message.Queue.WebhookSecret).Deliver)
	return nil
}

// messageSystem has the methods of *message.System and *rpc.Server.
type messageSystem struct {
	*message.System
	*rpc.Server
}

// Messages implements admin.MessageSource.
func (m *messages) Messages() (admin.Messages, error) {
	s, err := m.keeper.System()
	if err != nil {
		return nil, err
	}
	m.once.Do(func() {
		m.rpc, m.err = rpc.New(m.Config().Message, rpc.Deps{
			System: s, Log: m.Logger("message"), Metrics: m.set,
			Version: m.version,
		})
	})
	return messageSystem{s, m.rpc}, m.err
}

// MessageSystem returns the message firewall, nil while it waits for its store.
func (a *Server) MessageSystem() *message.System {
	s, _ := a.messages.keeper.System()
	return s
}
