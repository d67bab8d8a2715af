package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"
)

// apiCall is a kind of request of the message API, which stands for so many messages.
type apiCall struct {
	name string
	each int
	body func(n int) string
}

func apiCalls() []apiCall {
	words := strings.Fields("the lighthouse stands where river and sea meet and nobody has seen its keeper since the winter when the old bridge fell down")
	text := func(n int) string {
		var b strings.Builder
		for i := range 14 {
			b.WriteString(words[(n*7+i*(1+n%5))%len(words)] + " ")
		}
		return b.String() + strconv.Itoa(n)
	}
	input := func(n int) string {
		return fmt.Sprintf(`{"service":null,"method":"sf.message.input","id":%d,"params":[{"partner":null,"message":{"text":%q,"from":%d}}]}`, n, text(n), n)
	}
	return []apiCall{
		{"judged, one a request", 1, input},
		{"judged, batches of 50", 50, func(n int) string {
			all := make([]string, 50)
			for i := range all {
				all[i] = input(n*50 + i)
			}
			return "[" + strings.Join(all, ",") + "]"
		}},
		{"taught, one a request", 1, func(n int) string {
			return fmt.Sprintf(`{"method":"sf.model.train","id":1,"params":[{"partner":null,"model":"model","marker":%q,"message":{"text":%q}}]}`, []string{"good", "bad"}[n%2], text(n))
		}},
	}
}

// BenchmarkMessageAPI asks the message firewall over JSON-RPC and prints the CPU that the gateway spends on a message, beside
// that of a bare HTTP answer by the same library: processor time says the same on a busy machine.
func BenchmarkMessageAPI(b *testing.B) {
	requests, rounds := 1000, 1
	if os.Getenv("BENCH_PAIRS") != "" {
		requests, rounds = 20000, 3
	}
	service := startRole(b, "service", "")
	gateway := startGatewayWith(b, "gateway", service.addr, "log: {access: false}\n"+benchRules, "")
	teach(b, gateway)
	calls := apiCalls()
	bare, ours := make([]float64, 0, rounds), make([][]float64, len(calls))
	for range rounds {
		before := service.cpu(b)
		postAll(b, service.addr, "/bare", requests, calls[0].body)
		bare = append(bare, (service.cpu(b)-before)/float64(requests)*1e6)
		for i, c := range calls {
			n := max(requests/c.each, 50)
			before := gateway.cpu(b)
			postAll(b, gateway.admin, "/api/json/", n, c.body)
			ours[i] = append(ours[i], (gateway.cpu(b)-before)/float64(n*c.each)*1e6)
		}
	}
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	middle := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	answer := middle(bare)
	fmt.Printf("  %-24s %6.1f µs of CPU\n", "a bare HTTP answer", answer)
	for i, c := range calls {
		cpu := middle(ours[i])
		fmt.Printf("  %-24s %6.1f µs of CPU a message, %.2f of the bare answer, %.0f a second on two cores\n", c.name, cpu, cpu/answer, 2e6/cpu)
	}
}

// postAll posts n bodies over 16 connections, and wants 200 for each.
func postAll(b *testing.B, addr, path string, n int, body func(n int) string) {
	b.Helper()
	const conns = 16
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReaderSize(c, 16<<10)
			var res fasthttp.Response
			for k := i; k < n; k += conns {
				text := body(k)
				if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(text), text); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil || res.StatusCode() != 200 || strings.Contains(string(res.Body()), `"error"`) {
					b.Errorf("%v, status %d: %.200s", err, res.StatusCode(), res.Body())
					return
				}
			}
		})
	}
	wg.Wait()
}
