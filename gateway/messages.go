package gateway

import (
	"context"
	"sync"

	"antirobot/admin"
	"antirobot/message"
	"antirobot/message/queue"
	"antirobot/message/rpc"
	"antirobot/message/second"
	"antirobot/problem"
	"antirobot/rules"
	"antirobot/rules/sources"
)

// openMessages starts the message firewall, with the rules, models and logs that the store has.
func (a *Server) openMessages() error {
	names, err := a.Config().RuleNames()
	if err != nil {
		return problem.At("formula", err)
	}
	a.messages, err = message.NewKeeper(a.Config().Message, message.Deps{
		Store: a.store, Log: a.Logger("message"), Metrics: a.set,
		Counters: sources.NewCounters(a.counters, nil), Lists: sources.NewLists(a.lists, nil), Formulas: names.Formulas,
		Places: a.places,
		Names:  func() (lists []rules.List, places bool) { return sources.Named(a.lists.Names()), a.places.Known() },
	})
	if err != nil {
		return err
	}
	return a.messages.Start(context.Background())
}

// openQueue makes the queue of messages that wait for a person.
func (a *Server) openQueue() (err error) {
	a.queue, err = queue.New(a.Config().Message.Queue, queue.Deps{Store: a.store, Keys: a.keys, Now: a.store.Now, Log: a.Logger("queue"), Metrics: a.set})
	return err
}

// startDeliveries begins to deliver what was approved.
func (a *Server) startDeliveries() error {
	a.queue.Start(a.gateway.NewDelivery(a.Config().Message.Queue.WebhookSecret).Deliver)
	return nil
}

// openSeconds makes those who are asked about texts that are grey.
func (a *Server) openSeconds() (err error) {
	a.seconds, err = second.New(a.Config().Message.SecondOpinions, second.Deps{Log: a.Logger("second"), Metrics: a.set})
	return err
}

// messageAPI is the message firewall with its API, for the private listener.
type messageAPI struct {
	a    *Server
	once sync.Once
	err  error
	rpc  *rpc.Server
}

// messageSystem is what *message.System and *rpc.Server can.
type messageSystem struct {
	*message.System
	*rpc.Server
}

// Messages implements admin.MessageSource.
func (m *messageAPI) Messages() (admin.Messages, error) {
	s, err := m.a.messages.System()
	if err != nil {
		return nil, err
	}
	m.once.Do(func() {
		m.rpc, m.err = rpc.New(m.a.Config().Message, rpc.Deps{System: s, Log: m.a.Logger("message"), Metrics: m.a.set, Version: m.a.version})
	})
	return messageSystem{s, m.rpc}, m.err
}

// MessageSystem returns the message firewall, nil while it waits for its store.
func (a *Server) MessageSystem() *message.System {
	s, _ := a.messages.System()
	return s
}
