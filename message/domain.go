package message

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/rules"
	"antirobot/rules/sources"
)

// Domain is a named bag of properties that inherits from its parent. Safe for concurrent use.
type Domain struct {
	path     string
	partner  string
	parent   *Domain // nil for the default domain only
	children map[string]*Domain
	requests sync.Map
	set      *metrics.Set

	mu         sync.Mutex
	properties atomic.Pointer[map[string]any]
}

func newDomain(parent *Domain, partner, name string) *Domain {
	d := &Domain{partner: partner, parent: parent, children: make(map[string]*Domain), path: "/"}
	if parent != nil && name != "" {
		d.path = strings.TrimSuffix(parent.path, "/") + "/" + name
		parent.children[name] = d
	}
	d.properties.Store(&map[string]any{})
	return d
}

// Path returns the address of d under its partner's root, which is "/".
func (d *Domain) Path() string { return d.path }

// Get returns a property of d or of its nearest ancestor that has it.
func (d *Domain) Get(name string) (any, bool) {
	for ; d != nil; d = d.parent {
		if p, ok := (*d.properties.Load())[name]; ok {
			return p, true
		}
	}
	return nil, false
}

func (d *Domain) has(name string) bool {
	_, ok := (*d.properties.Load())[name]
	return ok
}

// List returns the names of d's own properties, sorted.
func (d *Domain) List() []string {
	return slices.Sorted(maps.Keys(*d.properties.Load()))
}

// Children returns the names of the domains below d, sorted.
func (d *Domain) Children() []string { return slices.Sorted(maps.Keys(d.children)) }

func (d *Domain) put(name string, value any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := maps.Clone(*d.properties.Load())
	next[name] = value
	d.properties.Store(&next)
}

// find returns the domain at a path below d. Empty parts are ignored, and there is no way up.
func (d *Domain) find(path string) (*Domain, bool) {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			continue
		}
		next, ok := d.children[part]
		if !ok {
			return nil, false
		}
		d = next
	}
	return d, true
}

func (d *Domain) walk(f func(d *Domain) error) error {
	if err := f(d); err != nil {
		return err
	}
	for _, name := range d.Children() {
		if err := d.children[name].walk(f); err != nil {
			return err
		}
	}
	return nil
}

// NoProperty is the fault for a name that d does not know.
func NoProperty(name string) error {
	return rules.Faultf(CodeProperty, "the domain has no property %q", rules.Clip(name, 64))
}

func property[T any](d *Domain, name string, code int, what string) (t T, err error) {
	p, ok := d.Get(name)
	if !ok {
		return t, NoProperty(name)
	}
	if t, ok = p.(T); !ok {
		return t, rules.Faultf(code, "the property %q is not %s", rules.Clip(name, 64), what)
	}
	return t, nil
}

// Firewall returns a firewall of d.
func (d *Domain) Firewall(name string) (*Firewall, error) {
	return property[*Firewall](d, name, CodeFirewall, "a firewall")
}

// Model returns a model of d.
func (d *Domain) Model(name string) (*Model, error) {
	return property[*Model](d, name, CodeModel, "a model")
}

func (d *Domain) messageLog(name string) (*messageLog, error) {
	return property[*messageLog](d, name, CodeLog, "a message log")
}

func (d *Domain) storage(name string) (sources.Storage, error) {
	return property[sources.Storage](d, name, CodeType, "a storage")
}

// Read makes a message of strings, int64s and netip.Addrs.
func (d *Domain) Read(values map[string]any) (*Message, error) {
	kind, err := d.messages()
	if err != nil {
		return nil, err
	}
	return kind.read(values)
}

// Attributes returns the attributes of d's messages.
func (d *Domain) Attributes() ([]AttributeConfig, error) {
	kind, err := d.messages()
	if err != nil {
		return nil, err
	}
	return kind.attributes, nil
}

func (d *Domain) messages() (*messageDomain, error) {
	return property[*messageDomain](d, propertyMessageDomain, CodeType, "a message domain")
}

type counters struct{ prefix string }

// newCounters names a component's counters after the partner, for people who read keys, and a hash of the
// component's key, so that no two partners or domains share one.
func newCounters(partner, key string) *counters {
	sum := sha256.Sum256([]byte(key))
	return &counters{rules.Clip(partner, 40) + "_" + hex.EncodeToString(sum[:8])}
}

// Describe returns the answer of sf.domain.get.
func Describe(name string, p any) (repr, class string, interfaces []string) {
	switch p := p.(type) {
	case int64:
		return strconv.FormatInt(p, 10), "int", nil
	case float64:
		return strconv.FormatFloat(p, 'g', -1, 64), "float", nil
	case string:
		return strconv.Quote(p), "str", nil
	case *messageDomain:
		var types []string
		for _, a := range p.attributes {
			types = append(types, a.Name+":"+a.Type)
		}
		return "<MessageDomain " + strings.Join(types, ", ") + ">", ClassMessageDomain,
			[]string{"IMessageDomain", "IDomainBindable"}
	case *Firewall:
		class, interfaces = ClassFirewall, []string{"IFirewall", "IDomainBindable"}
	case *Model:
		class, interfaces = ClassModel, []string{"IModel", "IDomainBindable"}
	case *sources.MemoryStorage:
		class, interfaces = ClassMemoryStorage, []string{"IExpirableStorage", "IUnreliableStorage", "IDomainBindable"}
	case *sources.StoreStorage:
		class, interfaces = ClassStoreStorage, []string{"IExpirableStorage", "IPersistentStorage", "IDomainBindable"}
	case *messageLog:
		class, interfaces = classLog, []string{"IMessageLog", "IDomainBindable"}
	case *counters:
		class, interfaces = ClassCounters, []string{"ICounters", "IDomainBindable"}
	}
	if c, ok := p.(*counters); ok {
		name += " " + c.prefix
	}
	return "<" + class + " " + name + ">", class, interfaces
}

// Requested counts a request of a method on d.
func (d *Domain) Requested(method string) {
	if c, ok := d.requests.Load(method); ok {
		if c, ok := c.(*metrics.Counter); ok {
			c.Inc()
		}
		return
	}
	c := d.set.GetOrCreateCounter(fmt.Sprintf(`antirobot_message_requests_total{partner=%q,domain=%q,method=%q}`,
		d.partner, d.path, method))
	d.requests.Store(method, c)
	c.Inc()
}

// Usage counts a partner's calls of a method on a domain.
type Usage struct {
	Partner  string `json:"partner"`
	Domain   string `json:"domain"`
	Method   string `json:"method"`
	Requests uint64 `json:"requests"`
}

// Usage returns the usage of all partners since the start.
func (s *System) Usage() []Usage {
	var out []Usage
	for _, name := range slices.Sorted(maps.Keys(s.partners)) {
		_ = s.partners[name].root.walk(func(d *Domain) error {
			first := len(out)
			d.requests.Range(func(method, count any) bool {
				m, _ := method.(string)
				if c, ok := count.(*metrics.Counter); ok && c.Get() > 0 {
					out = append(out, Usage{name, d.path, m, c.Get()})
				}
				return true
			})
			slices.SortFunc(out[first:], func(a, b Usage) int { return strings.Compare(a.Method, b.Method) })
			return nil
		})
	}
	return out
}
