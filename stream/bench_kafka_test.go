package stream_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"

	"antirobot/stream"
	"antirobot/stream/kafka"
)

// brokerVariable makes this test binary, when it runs again, an imitation of a broker, so that its time can be told from ours.
const brokerVariable = "ANTIROBOT_BENCH_BROKER"

func TestMain(m *testing.M) {
	if os.Getenv(brokerVariable) == "" {
		os.Exit(m.Run())
	}
	c := kfake.MustCluster(kfake.NumBrokers(1))
	fmt.Println(c.ListenAddrs()[0])
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until whoever started it ends
}

// BenchmarkThroughKafka is BenchmarkThroughRedis with an imitation of a broker: the server's time is not that of Apache Kafka.
func BenchmarkThroughKafka(b *testing.B) {
	g, pid := overKafka(b, batched())
	through(b, batched(), g, pid)
}

// overKafka is a stream over an imitation of a broker, and its process.
func overKafka(b *testing.B, of stream.Config) (stream.Stream, int) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	cfg := kafka.DefaultConfig()
	cfg.Brokers = []string{strings.TrimSpace(addr)}
	s, err := kafka.New(cfg, of, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s, cmd.Process.Pid
}
