package gateway

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/store"
	"antirobot/store/redisstore"
	"antirobot/stream"
	"antirobot/verdict"
)

// part is what this process does of the work.
func (a *Server) part() verdict.Part {
	switch a.Config().Role {
	case config.RoleGateway:
		return verdict.PartGateway
	case config.RoleProcessor:
		return verdict.PartProcessor
	}
	return verdict.PartAll
}

// openStream connects gateways with processors, where these are different processes.
func (a *Server) openStream() {
	if a.Config().Role == config.RoleAll {
		return
	}
	cfg := a.Config().Stream
	redis, ok := a.store.Store.(*redisstore.Store)
	if !ok {
		panic("BUG: a role needs a shared store")
	}
	a.stream = stream.NewGroup(cfg, stream.GroupDeps{
		Log: redis.Events(cfg.Partitions, cfg.Keep), KV: a.store, Logger: a.Logger("stream"),
	})
	if a.Config().Role == config.RoleGateway {
		a.publisher = stream.NewPublisher(cfg, a.stream, stream.PublisherDeps{
			Eyes: a.proc, Heard: a.cacher.Heard, Log: a.Logger("stream"), Metrics: a.set,
			Learn: func(e *verdict.Event, group uint32) { a.cacher.Paths().Learn(e, group, a.cacher.Stands(e)) },
		})
		a.publisher.Start()
		return
	}
	a.consumer = stream.NewConsumer(a.stream, stream.ConsumerDeps{Judge: a.proc.Process, Log: a.Logger("stream"), Metrics: a.set})
}

// openDiary opens what a process that judges by itself writes down for after a restart.
func (a *Server) openDiary() error {
	cfg := a.Config().Diary
	if a.Config().Role != config.RoleAll || cfg.Keep == 0 || !a.Config().Processor.Enabled || a.Config().Store.URL == config.MemoryURL {
		return nil
	}
	y, err := stream.OpenDiary(cfg, stream.DiaryDeps{Dir: filepath.Join(a.Config().DataDir, "diary"), Log: a.Logger("diary"), Metrics: a.set})
	if err != nil {
		a.log.Error().Err(err).Msg("there is no diary: a restart forgets what is known of visitors")
		return nil
	}
	a.diary = y
	return nil
}

func (a *Server) closeDiary() error {
	if a.diary == nil {
		return nil
	}
	return a.diary.Close()
}

// useDiary puts the services of a configuration into use. With the first ones the processor reads what was judged before this start.
func (a *Server) useDiary(services *stream.Services) (commit func()) {
	use := a.diary.Prepare(services)
	return func() {
		use()
		a.recall.Do(func() { a.proc.Recall(a.diary.Read) })
	}
}

// beatEvery is how often a processor tells that it works.
const beatEvery = time.Second

// startConsumer begins to judge, once the services are known.
func (a *Server) startConsumer() {
	a.consumer.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	beats.Go(func() {
		store.Every(ctx, beatEvery, func() {
			if a.stream.Status().Held > 0 {
				a.cacher.Beat(a.consumer.Age())
			}
		})
	})
	a.beating = func() { cancel(); beats.Wait() }
}

func (a *Server) closeStream() error {
	switch {
	case a.publisher != nil:
		if err := a.publisher.Close(); err != nil {
			return err
		}
	case a.consumer != nil:
		if a.beating != nil {
			a.beating()
		}
		if err := a.consumer.Close(); err != nil {
			return err
		}
	default:
		return nil
	}
	return a.stream.Close()
}

// Stream implements admin.Gateway.
func (a *Server) Stream() *admin.StreamHealth {
	h := &admin.StreamHealth{Role: a.Config().Role, Healthy: true}
	var err error
	switch {
	case a.publisher != nil:
		if err = a.publisher.Err(); err != nil {
			err = fmt.Errorf("%w: this gateway judges what it sees by itself", err)
		}
	case a.consumer != nil:
		st, age := a.stream.Status(), a.consumer.Age()
		h.Partitions, h.Lag = st.Held, age.Seconds()
		if err = st.Err; err == nil && age > a.Config().Stream.AloneAfter {
			err = fmt.Errorf("what it judges is %v old, so gateways judge by themselves: start more processors", age.Round(time.Second))
		}
	default:
		return nil
	}
	if err != nil {
		h.Healthy, h.Error = false, err.Error()
	}
	return h
}

// sink is where events go.
func (a *Server) sink() verdict.Sink {
	if a.publisher != nil {
		return a.publisher
	}
	return a.proc
}

// prepareStream prepares for the services of a configuration: processes number them as they like, and name them alike.
func (a *Server) prepareStream(s *Services) (commit func(), err error) {
	if a.stream == nil && a.diary == nil {
		return func() {}, nil
	}
	keys := make(map[uint16]string, len(a.indexes.of))
	for key, i := range a.indexes.of {
		keys[i] = key
	}
	var list []stream.Service
	for _, v := range s.Judged {
		list = append(list, stream.Service{Key: keys[v.Index], Settings: v})
	}
	services, err := stream.NewServices(list)
	if err != nil {
		return nil, err
	}
	switch {
	case a.publisher != nil:
		return a.publisher.Prepare(services), nil
	case a.diary != nil:
		return a.useDiary(services), nil
	}
	use := a.consumer.Prepare(services)
	return func() {
		use()
		if a.beating == nil {
			a.startConsumer()
		}
	}, nil
}
