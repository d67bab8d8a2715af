package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/store"
	"antirobot/store/redisstore"
	"antirobot/stream"
	"antirobot/verdict"
	"antirobot/verdict/processor"
)

// link connects gateways with processors where these are different processes, and writes the restart log where they are
// one.
type link struct {
	*base
	stream     stream.Stream      // nil: this process does everything
	publisher  *stream.Publisher  // of a gateway that does not judge by itself
	consumer   *stream.Consumer   // of a processor
	restartLog *stream.RestartLog // of a process that does everything; nil: off
	recall     sync.Once
	beating    context.CancelFunc // ends the beats of a processor, and waits for it
}

func (l *link) part() verdict.Part {
	switch l.Config().Role {
	case config.RoleGateway:
		return verdict.PartGateway
	case config.RoleProcessor:
		return verdict.PartProcessor
	}
	return verdict.PartAll
}

func (l *link) open(backend *Backend, j *Judge) {
	cfg := l.Config().Stream
	if l.Config().Role == config.RoleAll {
		return
	}
	redis, ok := backend.Store.(*redisstore.Store)
	if !ok {
		panic("BUG: a role needs a shared store")
	}
	l.stream = stream.NewGroup(cfg, stream.GroupDeps{
		Log: redis.Events(cfg.Partitions, cfg.Keep), KV: backend, Logger: l.Logger("stream"),
	})
	proc, cacher := j.Processors[0], j.Cacher
	if l.Config().Role == config.RoleGateway {
		l.publisher = stream.NewPublisher(cfg, l.stream, stream.PublisherDeps{
			Eyes: proc, Heard: cacher.Heard, Log: l.Logger("stream"), Metrics: l.set,
			Learn: func(e *verdict.Event, group uint32) { cacher.Paths().Learn(e, group, cacher.IsKnown(e)) },
		})
		l.publisher.Start()
		return
	}
	l.consumer = stream.NewConsumer(l.stream, stream.ConsumerDeps{Judge: proc.Process, Log: l.Logger("stream"), Metrics: l.set})
}

// openRestartLog opens the restart log of a process that judges by itself.
func (l *link) openRestartLog() error {
	keep := l.Config().RestartLog
	if l.Config().Role != config.RoleAll || keep == 0 || !l.Config().Processor.Enabled || l.Config().Store.URL == config.MemoryURL {
		return nil
	}
	y, err := stream.OpenRestartLog(stream.RestartLogDeps{
		Dir: l.inDataDir("restart-log"), Keep: keep, Log: l.Logger("restart_log"), Metrics: l.set,
	})
	if err != nil {
		l.log.Error().Err(err).Msg("there is no restart log: a restart will not know visitors")
		return nil
	}
	l.restartLog = y
	return nil
}

func (l *link) closeRestartLog() error {
	if l.restartLog == nil {
		return nil
	}
	return l.restartLog.Close()
}

// beatEvery is how often a processor tells gateways that it works.
const beatEvery = time.Second

// startConsumer begins to judge, once the services are known.
func (l *link) startConsumer(cacher *verdict.Cacher) {
	l.consumer.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	beats.Go(func() {
		store.Every(ctx, beatEvery, func() {
			if l.stream.Status().Held > 0 {
				cacher.Beat(l.consumer.Age())
			}
		})
	})
	l.beating = func() { cancel(); beats.Wait() }
}

func (l *link) close() error {
	switch {
	case l.publisher != nil:
		if err := l.publisher.Close(); err != nil {
			return err
		}
	case l.consumer != nil:
		if l.beating != nil {
			l.beating()
		}
		if err := l.consumer.Close(); err != nil {
			return err
		}
	default:
		return nil
	}
	return l.stream.Close()
}

func (l *link) health() *admin.StreamHealth {
	h := &admin.StreamHealth{Role: l.Config().Role, Healthy: true}
	var err error
	switch {
	case l.publisher != nil:
		if err = l.publisher.Err(); err != nil {
			err = fmt.Errorf("%w: this gateway judges what it sees by itself", err)
		}
	case l.consumer != nil:
		st, age := l.stream.Status(), l.consumer.Age()
		h.Partitions, h.Lag = st.Held, age.Seconds()
		if err = st.Err; err == nil && age > l.Config().Stream.AloneAfter {
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

func (l *link) sink(proc *processor.Processor) verdict.Sink {
	if l.publisher != nil {
		return l.publisher
	}
	return proc
}

// prepare prepares for other services. Each process numbers them in its own way; all use the same names.
func (l *link) prepare(s *services, j *Judge) (commit func(), err error) {
	if l.stream == nil && l.restartLog == nil {
		return func() {}, nil
	}
	keys := make(map[uint16]string, len(j.indexes.numbers))
	for key, i := range j.indexes.numbers {
		keys[i] = key
	}
	var list []stream.Service
	for _, v := range s.judged {
		list = append(list, stream.Service{Key: keys[v.Index], Settings: v})
	}
	services, err := stream.NewServices(list)
	if err != nil {
		return nil, err
	}
	switch {
	case l.publisher != nil:
		return l.publisher.Prepare(services), nil
	case l.restartLog != nil:
		use := l.restartLog.Prepare(services)
		return func() {
			use()
			l.recall.Do(func() { j.Processors[0].Recall(l.restartLog.Read) }) // with the first services
		}, nil
	}
	use := l.consumer.Prepare(services)
	return func() {
		use()
		if l.beating == nil {
			l.startConsumer(j.Cacher)
		}
	}, nil
}
