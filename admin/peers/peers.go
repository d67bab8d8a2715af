package peers

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"antirobot/spravka"
	"antirobot/store"
)

// Peer is what a gateway tells of itself.
type Peer struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"` // host and port of its private listener; empty: it can't be asked
	Pin     []byte `json:"pin,omitempty"`     // SHA-256 of the listener's certificate; empty: it speaks no TLS
	Version string `json:"version"`           // of the program
	Config  uint64 `json:"config"`            // the pushed configuration that it runs; 0: its own file
}

// key identifies the same gateway after a restart: its name may contain a process ID.
func (p *Peer) key() string {
	if p.Address != "" {
		return p.Address
	}
	return p.Name
}

// Deps is what Peers work with; all but Now are required.
type Deps struct {
	KV      store.KV
	Ring    func() *spravka.Ring
	Self    func() Peer   // as it is now
	Timeout time.Duration // for the answers of all
	Now     func() time.Time
	Log     zerolog.Logger
}

// Peers are the gateways that share a store. Safe for concurrent use; made by New.
type Peers struct {
	Deps
	plain http.Client
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// How often a gateway tells where it is, for how long that holds, and how long the store may take.
const (
	tellEvery = 15 * time.Second
	toldFor   = 5 * time.Minute
	storeTime = 5 * time.Second
)

const (
	maxPeers = 64   // gateways; more are not asked
	maxTold  = 4096 // bytes of what one tells
	maxTries = 16   // of a concurrent write
)

// directory is the key under which the store keeps what all have told.
var directory = []byte("gateways")

type told struct {
	Key   string    `json:"key"`
	Until time.Time `json:"until"`
	Seal  string    `json:"seal"` // of a Peer
}

// New makes Peers; they tell nothing until Start.
func New(d Deps) *Peers {
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Peers{Deps: d, plain: http.Client{Transport: transport(nil), CheckRedirect: stay}}
}

// Here is this gateway.
func (p *Peers) Here() Peer { return p.Self() }

// Start tells the others of this gateway until Close.
func (p *Peers) Start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() {
		p.tell(ctx)
		store.Every(ctx, tellEvery, func() { p.tell(ctx) })
	})
}

// Close unregisters this gateway and closes its connections.
func (p *Peers) Close() error {
	defer p.plain.CloseIdleConnections()
	if p.stop == nil {
		return nil
	}
	p.stop()
	p.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	self := p.Self()
	return p.change(ctx, func(all []told) []told { return without(all, self.key()) })
}

func (p *Peers) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	self := p.Self()
	text, err := json.Marshal(&self)
	if err != nil {
		panic("BUG: a gateway does not encode: " + err.Error())
	}
	until := p.Now().Add(toldFor)
	seal := p.Ring().Seal(nil, spravka.PurposeGateway, []byte("told"), text, until)
	err = p.change(ctx, func(all []told) []told {
		return append(without(all, self.key()), told{self.key(), until.UTC(), string(seal)})
	})
	if err != nil {
		p.Log.Debug().Err(err).Msg("the other gateways could not be told of this one") // the store's own health tells
	}
}

func without(all []told, key string) []told {
	return slices.DeleteFunc(all, func(t told) bool { return t.Key == key })
}

// change rewrites the directory, again if another gateway was quicker. What has ended is left out.
func (p *Peers) change(ctx context.Context, f func(all []told) []told) error {
	for range maxTries {
		raw, all, err := p.read(ctx)
		if err != nil {
			return err
		}
		all = f(all)
		text, err := json.Marshal(all[max(len(all)-maxPeers, 0):])
		if err != nil {
			return err
		}
		if ok, err := p.KV.Swap(ctx, directory, raw, text, toldFor); err != nil || ok {
			return err
		}
	}
	return errors.New("too many gateways write at once")
}

// read returns the directory as it stands in the store, and the entries in it that have not ended.
func (p *Peers) read(ctx context.Context) (raw []byte, all []told, err error) {
	raw, err = p.KV.Get(ctx, nil, directory)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if len(raw) > maxPeers*maxTold {
		return raw, nil, nil // not ours; the next registration overwrites it
	}
	_ = json.Unmarshal(raw, &all) // nothing that others wrote has a valid seal
	now := p.Now()
	return raw, slices.DeleteFunc(all, func(t told) bool { return now.After(t.Until) || len(t.Seal) > maxTold }), nil
}

// known returns the other gateways that have told of themselves lately, by name.
func (p *Peers) known(ctx context.Context) ([]Peer, error) {
	_, all, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	self := p.Self()
	var others []Peer
	for _, t := range all[:min(len(all), maxPeers)] {
		text, err := p.Ring().Open(nil, spravka.PurposeGateway, []byte("told"), []byte(t.Seal), p.Now())
		var o Peer
		if err != nil || json.Unmarshal(text, &o) != nil || o.key() == self.key() || !askable(o.Address) {
			continue
		}
		others = append(others, o)
	}
	slices.SortFunc(others, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return others, nil
}

// askable reports whether an address is none, or a host and a port and nothing else.
func askable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return address == "" || err == nil && host != "" && port != "" && !strings.ContainsAny(address, "/?#@ ")
}
