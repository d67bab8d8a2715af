package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"antirobot/servertest"
	"antirobot/stream"
)

const patience = 60 * time.Second

// seen is what a consumer has had.
type seen struct {
	mu           sync.Mutex
	fresh, again []string
}

func (g *seen) take(d stream.Delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d.Again {
		g.again = append(g.again, string(d.Data))
	} else {
		g.fresh = append(g.fresh, string(d.Data))
	}
}

func (g *seen) has(n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.fresh) >= n
}

func consume(t *testing.T, s *Stream, f func(stream.Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = s.Consume(ctx, f) })
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return stop
}

func publish(s *Stream, partition int, text string) error {
	return s.Publish(context.Background(), []stream.Batch{{Partition: partition, Data: []byte(text)}})
}

// TestAway cuts a gateway and a processor off: publishing fails, so that the gateway judges by itself, and goes on afterwards
// without anything lost that was acknowledged.
func TestAway(t *testing.T) {
	t.Parallel()
	c := brokers(t)
	gate, wire := joined(t, c)
	proc, other := joined(t, c)
	var got seen
	consume(t, proc, got.take)
	if err := publish(gate, 1, "a"); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the first", func() bool { return got.has(1) })
	wire.cut()
	other.cut()
	if err := publish(gate, 1, "b"); err == nil {
		t.Error("it publishes although the brokers are away")
	}
	servertest.Eventually(t, "the processor knows that it holds nothing", func() bool { return proc.Status().Held == 0 })
	wire.mend()
	other.mend()
	servertest.Eventually(t, "the brokers are back", func() bool { return publish(gate, 1, "c") == nil })
	servertest.Eventually(t, "what came after", func() bool { // "a" may come twice: it was perhaps not noted yet
		got.mu.Lock()
		defer got.mu.Unlock()
		return slices.Contains(got.fresh, "c")
	})
}

// TestIdleProcessorIsWellAgain: a processor to which nothing comes says that its brokers are away only while they are.
func TestIdleProcessorIsWellAgain(t *testing.T) {
	t.Parallel()
	proc, wire := joined(t, brokers(t))
	consume(t, proc, func(stream.Delivery) { t.Error("something came") })
	servertest.Eventually(t, "it holds all partitions", func() bool { return proc.Status().Held == proc.Partitions() })
	wire.cut()
	servertest.Eventually(t, "it says that the brokers are away", func() bool { return proc.Status().Err != nil })
	wire.mend()
	servertest.Eventually(t, "it is well", func() bool { return proc.Status().Err == nil })
}

// TestStartsWithoutBrokers: neither a gateway nor a processor waits for brokers that are not there yet.
func TestStartsWithoutBrokers(t *testing.T) {
	t.Parallel()
	cfg, of := DefaultConfig(), stream.DefaultConfig()
	cfg.Brokers, cfg.Timeout = []string{"127.0.0.1:1"}, time.Second
	var log bytes.Buffer
	s, err := New(cfg, of, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := publish(s, 0, "x"); err == nil {
		t.Error("it publishes to nobody")
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log does not say why: %s", log.String())
	}
}

// TestReplayIsBounded takes a partition over from one that has had more than may be read once more.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	c := brokers(t)
	one, _ := joined(t, c)
	one.of.ReplayBytes = 3
	var slowly stream.Past
	for i := range 10 { // a byte every other second
		slowly.Add(fmt.Sprint(i), time.Duration(2*i)*time.Second, 1)
	}
	for i := range 10 {
		if err := publish(one, 2, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	var first, second seen
	stop := consume(t, one, first.take)
	servertest.Eventually(t, "all", func() bool { return first.has(10) })
	one.mu.Lock()
	h := one.held[2]
	one.mu.Unlock()
	h.mu.Lock()
	h.past = slowly // as if they had come so
	h.mu.Unlock()
	stop()
	two, _ := joined(t, c)
	consume(t, two, second.take)
	if err := publish(one, 2, "new"); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the new one", func() bool { return second.has(1) })
	second.mu.Lock()
	defer second.mu.Unlock()
	if again, fresh := strings.Join(second.again, ""), strings.Join(second.fresh, ""); again != "789" || fresh != "new" {
		t.Errorf("once more %q, and then %q; want 789, and new", again, fresh)
	}
}

// TestTopic checks that a topic that can't work is refused with what to do.
func TestTopic(t *testing.T) {
	t.Parallel()
	c := brokers(t, kfake.SeedTopics(3, "three"), kfake.SeedTopics(4, "four"))
	refused := func(topic string, create bool, want string) {
		t.Helper()
		cfg, of := quick(c)
		cfg.Topic, cfg.Create = topic, create
		s, err := New(cfg, of, zerolog.Nop())
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", topic, err, want)
		}
	}
	refused("three", true, "topic three has 3 partitions, and stream.partitions is 4")
	refused("four", true, "message.timestamp.type is CreateTime, and must be LogAppendTime")
	refused("none", false, "there is no topic none, and kafka.create is false")
}

// TestLogin connects with TLS and each way to log in, from a file and from the environment; a wrong password is refused.
func TestLogin(t *testing.T) {
	cert, ca := certificate(t)
	c := brokers(t, kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "gate", "open"), kfake.Superuser("SCRAM-SHA-256", "gate", "open"), kfake.Superuser("SCRAM-SHA-512", "gate", "open"))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("open\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KAFKA_PASSWORD_OF_A_TEST", "open")
	cfg, of := quick(c)
	cfg.User, cfg.TLS = "gate", TLSConfig{Enabled: true, CAFile: ca}
	cfg.Timeout = 30 * time.Second // nothing here ends by it: to be refused takes a handshake and a key derived from the password
	try := func(mechanism string, set func(c *Config)) error {
		cfg := cfg
		cfg.Mechanism = mechanism
		set(&cfg)
		s, err := New(cfg, of, zerolog.Nop())
		if err != nil {
			return err
		}
		defer s.Close()
		return publish(s, 0, mechanism)
	}
	for _, mechanism := range []string{mechanismPlain, mechanismScram256, mechanismScram512} {
		if err := try(mechanism, func(c *Config) { c.PasswordFile = file }); err != nil {
			t.Errorf("%s, from a file: %v", mechanism, err)
		}
	}
	if err := try(mechanismScram512, func(c *Config) { c.PasswordEnv = "KAFKA_PASSWORD_OF_A_TEST" }); err != nil {
		t.Errorf("from the environment: %v", err)
	}
	if err := try(mechanismScram256, func(c *Config) { c.Password = "shut" }); err == nil || !strings.Contains(err.Error(), "see kafka.tls, mechanism, user and password") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := try(mechanismPlain, func(c *Config) { c.Password, c.TLS.CAFile = "open", "" }); err == nil {
		t.Error("it trusts brokers that nobody vouches for")
	}
	defer c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1}).Remove()
	var unfit *unfitError // what other brokers answer
	if err := try(mechanismScram256, func(c *Config) { c.Password = "shut" }); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "see kafka.mechanism") {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestRights: the rights that docs/scaling.md asks for are enough to make the topic, to publish and to judge; without one of them it
// is said that a right is missing.
func TestRights(t *testing.T) {
	t.Parallel()
	const (
		topic, group = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
		write        = 2 // of all
	)
	cfg, of := DefaultConfig(), stream.DefaultConfig()
	all := []kfake.ACL{
		{Resource: topic, Operation: kmsg.ACLOperationDescribe},
		{Resource: topic, Operation: kmsg.ACLOperationRead},
		{Resource: topic, Operation: kmsg.ACLOperationWrite},
		{Resource: topic, Operation: kmsg.ACLOperationDescribeConfigs},
		{Resource: topic, Operation: kmsg.ACLOperationCreate},
		{Resource: group, Operation: kmsg.ACLOperationRead},
	}
	for i := range all {
		all[i].Name, all[i].Pattern, all[i].Allow = cfg.Topic, kmsg.ACLResourcePatternTypeLiteral, true
		if all[i].Resource == group {
			all[i].Name = cfg.Group
		}
	}
	for _, is := range []struct {
		name    string
		lacks   int // of all; -1: none
		problem string
	}{
		{"all", -1, ""}, {"not to read for the group", 5, "GROUP_AUTHORIZATION_FAILED"}, {"not to write", write, "TOPIC_AUTHORIZATION_FAILED"}, {"not to read", 1, "TOPIC_AUTHORIZATION_FAILED"},
	} {
		t.Run(is.name, func(t *testing.T) {
			t.Parallel()
			rights := slices.Clone(all)
			if is.lacks >= 0 {
				rights = slices.Delete(rights, is.lacks, is.lacks+1)
			}
			c := brokers(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "gate", "open", rights...))
			cfg, of := cfg, of
			cfg.Brokers, cfg.SessionTimeout, of.Partitions = c.ListenAddrs(), time.Second, 4
			cfg.Mechanism, cfg.User, cfg.Password = mechanismPlain, "gate", "open"
			s, err := New(cfg, of, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var got seen
			defer consume(t, s, got.take)()
			if is.problem == "" {
				if err := publish(s, 1, "x"); err != nil {
					t.Error(err)
				}
				servertest.Eventually(t, "what was published is judged", func() bool { return got.has(1) })
				return
			}
			if is.lacks == write {
				if err := publish(s, 1, "x"); err == nil || !strings.Contains(err.Error(), is.problem) {
					t.Errorf("published: %v", err)
				}
				return
			}
			servertest.Eventually(t, "the status says "+is.problem, func() bool {
				err := s.Status().Err
				return err != nil && strings.Contains(err.Error(), is.problem)
			})
		})
	}
}

// TestForeignClient lets librdkafka (kcat) read what was written.
func TestForeignClient(t *testing.T) {
	t.Parallel()
	bin, err := exec.LookPath("kcat")
	if err != nil {
		t.Fatal("kcat is missing: run make deps")
	}
	c := brokers(t)
	s, _ := joined(t, c)
	for i := range 3 {
		if err := publish(s, 3, fmt.Sprintf("batch %d\n", i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, bin, "-C", "-q", "-e", "-b", c.ListenAddrs()[0], "-t", s.cfg.Topic, "-p", "3", "-f", "%p/%o/%T %s").CombinedOutput()
	if err != nil {
		t.Fatalf("kcat: %v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		t.Fatalf("kcat has read %q", out)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf("3/%d/", i)) || !strings.HasSuffix(line, fmt.Sprintf(" batch %d", i)) {
			t.Errorf("kcat has read %q", line)
		}
	}
}

// TestMadeTopic checks what the topic is made with.
func TestMadeTopic(t *testing.T) {
	t.Parallel()
	c := brokers(t)
	s, _ := joined(t, c)
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: s.cfg.Topic}}
	answer, err := r.RequestWith(context.Background(), s.producer)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"message.timestamp.type": "LogAppendTime", "retention.ms": "900000", "retention.bytes": "134217728", "cleanup.policy": "delete"}
	for _, c := range answer.Resources[0].Configs {
		if v, named := want[c.Name]; named && c.Value != nil && *c.Value == v {
			delete(want, c.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("the topic lacks %v", want)
	}
}
