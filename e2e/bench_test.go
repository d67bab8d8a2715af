package e2e

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// BenchmarkProxiedRequest compares the CPU time of one proxied request: the gateway against a bare fasthttp proxy and
// nginx, in interleaved pairs. The result is the median of the pairs' ratios with its 95 % interval.
func BenchmarkProxiedRequest(b *testing.B) {
	pairs, requests := 3, 2000
	if v, err := strconv.Atoi(os.Getenv("BENCH_PAIRS")); err == nil && v > 0 {
		pairs, requests = v, 16000
	}
	const conns = 64
	service := startRole(b, "service", "")
	bare := startRole(b, "bare", service.addr)
	others := []process{bare}
	if nginx, ok := startNginx(b, service.addr); ok {
		others = append(others, nginx)
	}
	ours := []process{
		startGateway(b, "gateway", service.addr, "processor: {enabled: false}\nlog: {access: false}\n"),
		startGateway(b, "gateway with processor", service.addr, "log: {access: false}\n"),
		startGateway(b, "gateway with processor and access log", service.addr, ""),
	}
	all := append(slices.Clone(others), ours...)
	// a browser that was here before: it has the gateway's cookie, so none is made for it on each request
	cookies := map[string]string{}
	for _, p := range all {
		cookies[p.name] = "Cookie: session=s3cr3t; " + browserCookie(b, p.addr) + "\r\n"
		load(b, p.addr, conns, requests, cookies[p.name]) // warm up
	}
	perRequest := map[string][]float64{}
	for i := range pairs {
		for k := range all {
			p := all[(i+k)%len(all)]
			before := p.cpu(b)
			load(b, p.addr, conns, requests, cookies[p.name])
			perRequest[p.name] = append(perRequest[p.name], (p.cpu(b)-before)/float64(requests)*1e6)
		}
	}
	for range b.N { // the work is done above, in pairs
	}
	b.ReportMetric(0, "ns/op")
	for _, p := range all {
		fmt.Printf("  %-40s %6.1f µs CPU per request (median of %d × %d requests, 1 KB, %d connections)\n", p.name, median(perRequest[p.name]), pairs, requests, conns)
	}
	for _, our := range ours {
		for _, other := range others {
			ratio := make([]float64, pairs)
			for i := range ratio {
				ratio[i] = perRequest[our.name][i] / perRequest[other.name][i]
			}
			low, high := interval(ratio)
			fmt.Printf("  %-40s %5.2f × %s (95 %% %.2f–%.2f)\n", our.name, median(ratio), other.name, low, high)
		}
	}
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// interval returns the 95 % confidence interval of the mean in logarithms, which suits ratios.
func interval(ratios []float64) (low, high float64) {
	mean, square := 0.0, 0.0
	for _, r := range ratios {
		mean += math.Log(r) / float64(len(ratios))
	}
	for _, r := range ratios {
		square += math.Pow(math.Log(r)-mean, 2) / math.Max(1, float64(len(ratios)-1))
	}
	half := 1.96 * math.Sqrt(square/float64(len(ratios)))
	return math.Exp(mean - half), math.Exp(mean + half)
}

// BenchmarkAddedLatency sends requests to the service directly and through the gateway at a steady rate, alternating, and
// prints the quantiles of both: the difference is what the gateway adds. Latency counts from the time at which a request
// was due, so that a stall also counts for the requests queued behind it.
func BenchmarkAddedLatency(b *testing.B) {
	rate, rounds, each := 1000, 1, time.Second
	if os.Getenv("BENCH_PAIRS") != "" {
		rate, rounds, each = 5000, 5, 4*time.Second
	}
	service := startRole(b, "service", "")
	gateway := startGateway(b, "gateway", service.addr, "log: {access: false}\n")
	var direct, through []time.Duration
	for range rounds {
		direct = append(direct, steady(b, service.addr, rate, each)...)
		through = append(through, steady(b, gateway.addr, rate, each)...)
	}
	slices.Sort(direct)
	slices.Sort(through)
	at := func(d []time.Duration, q float64) time.Duration { return d[min(int(q*float64(len(d))), len(d)-1)] }
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	fmt.Printf("  %d requests a second, 64 connections, %d requests each\n", rate, len(through))
	for _, q := range []float64{0.5, 0.98, 0.99, 0.999} {
		fmt.Printf("  p%-5g direct %8v, through the gateway %8v: added %v\n", q*100, at(direct, q).Round(time.Microsecond),
			at(through, q).Round(time.Microsecond), (at(through, q) - at(direct, q)).Round(time.Microsecond))
	}
}

// steady sends requests at a rate for a while over 64 connections and returns each one's latency.
func steady(b *testing.B, addr string, rate int, d time.Duration) []time.Duration {
	b.Helper()
	const conns = 64
	interval := time.Duration(conns) * time.Second / time.Duration(rate)
	all := make([][]time.Duration, conns)
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
			request := fmt.Appendf(nil, browserRequest, "")
			r := bufio.NewReaderSize(c, 8192)
			var res fasthttp.Response
			for due := began.Add(interval * time.Duration(i) / conns); due.Before(began.Add(d)); due = due.Add(interval) {
				<-time.After(time.Until(due))
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil || res.StatusCode() != 200 {
					b.Errorf("%v, status %d", err, res.StatusCode())
					return
				}
				all[i] = append(all[i], time.Since(due))
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...)
}
