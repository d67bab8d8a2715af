package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// benchRules are the example rules of docs/messages.md.
const benchRules = `
message:
  partners:
    - name: default
      domain:
        properties:
          - {name: storage, class: DomainMemoryStorage}
          - name: messageAnalyzer
            class: Firewall
            rules: |
              do lengthCheck(minLength=1, maxLength=1000) mark invalid
              if invalid skip to 1000
              do messageFrequencyCheck() mark messagefrequent, frequent
              do userFrequencyCheck(count=1000000000) mark userfrequent, frequent
              if frequent skip to 1000
              do modelClassify() mark spam
              1000: do messageLogPut()
              if invalid stop as INVALID
              if frequent stop as FREQUENT
              if spam stop as SPAM
              stop as OK
          - {name: messageLog, class: MessageLog}
          - {name: model, class: BayesModel}
`

const benchRoute = `  messages:
    routes:
      - route: POST /comments
        sources:
          - {attribute: text, from: form, key: words}
          - {attribute: from, from: subject}
          - {attribute: ip, from: address}
`

// BenchmarkInlineRoute posts comments at a steady rate to a route whose messages are judged and, alternating on the same
// connections, to one without judging, and prints the quantiles of both: the difference is the cost of judging inline.
func BenchmarkInlineRoute(b *testing.B) {
	rate, each := 400, 3*time.Second
	if os.Getenv("BENCH_PAIRS") != "" {
		rate, each = 2000, 20*time.Second
	}
	service := startRole(b, "service", "")
	gateway := startGatewayWith(b, "gateway", service.addr, "log: {access: false}\n"+benchRules, benchRoute)
	teach(b, gateway)
	plain, judged := posts(b, gateway.addr, rate, each)
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	slices.Sort(plain)
	slices.Sort(judged)
	at := func(d []time.Duration, q float64) time.Duration { return d[min(int(q*float64(len(d))), len(d)-1)] }
	fmt.Printf("  %d posts a second, 16 connections, %d of each kind\n", rate, len(judged))
	for _, q := range []float64{0.5, 0.9, 0.99} {
		fmt.Printf("  p%-5g without rules %8v, judged %8v: added %v\n", q*100, at(plain, q).Round(time.Microsecond),
			at(judged, q).Round(time.Microsecond), (at(judged, q) - at(plain, q)).Round(time.Microsecond))
	}
}

// teach trains the model with some texts, so that it has something to look up.
func teach(b *testing.B, g process) {
	b.Helper()
	for i := range 40 {
		marker, text := "good", fmt.Sprintf("I liked the chapter about the river very much, number %d was my favourite", i)
		if i%2 == 0 {
			marker, text = "bad", fmt.Sprintf("win money at our casino today, bonus %d for new players", i)
		}
		body := fmt.Sprintf(`{"method":"sf.model.train","params":[{"partner":null,"model":"model","marker":%q,"message":{"text":%q}}]}`, marker, text)
		res, err := http.Post("http://"+g.admin+"/api/json/", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		res.Body.Close()
	}
}

// posts sends comments at a rate for a while, alternating between both routes, and returns each one's latency from its due
// time.
func posts(b *testing.B, addr string, rate int, d time.Duration) (plain, judged []time.Duration) {
	b.Helper()
	const conns = 16
	interval := time.Duration(conns) * time.Second / time.Duration(rate)
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now().Add(20 * time.Millisecond)
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			var took [2][]time.Duration
			r := bufio.NewReaderSize(c, 8192)
			var res fasthttp.Response
			n := 0
			for due := began.Add(interval * time.Duration(i) / conns); due.Before(began.Add(d)); due = due.Add(interval) {
				body := fmt.Sprintf("words=Hello+from+connection+%d,+this+is+my+comment+number+%d+about+the+old+lighthouse+and+the+sea&x=1", i, n)
				path := [2]string{"/plain", "/comments"}[n%2]
				request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: Mozilla/5.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
				<-time.After(time.Until(due))
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil || res.StatusCode() != 200 || !bytes.HasPrefix(res.Body(), []byte("xxxx")) {
					b.Errorf("%v, status %d", err, res.StatusCode())
					return
				}
				took[n%2] = append(took[n%2], time.Since(due))
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			plain, judged = append(plain, took[0]...), append(judged, took[1]...)
		})
	}
	wg.Wait()
	if len(plain) == 0 || len(judged) == 0 {
		b.Fatal("nothing was measured")
	}
	return plain, judged
}
