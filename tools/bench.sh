#!/usr/bin/env bash
# Prints the figures of docs/performance.md, each beside its reference, in one run. PAIRS=30 by default; QUICK=1 for a
# look in a minute. Needs a quiet machine to mean much; the ratios are what to quote.
set -eu
cd "$(dirname "$0")/.."
pairs=${PAIRS:-30}
[ -n "${QUICK:-}" ] && pairs=5
say() { printf '\n== %s\n' "$*"; }
bench() { go test -run '^$' -bench "$2" -benchmem ${3:-} "$1" | grep -E '^(Benchmark|  )' || true; }

say "verdict: identity, lists, bans, pass (budget: 1 µs p50, 0 allocations)"
bench ./verdict '^BenchmarkDecide'
say "who asks, from cookies"
bench ./identity '^BenchmarkResolve'
say "lists: one look-up among a million networks"
bench ./cbb '^BenchmarkLookup'
say "CPU per proxied request beside a bare fasthttp proxy and nginx (budget: 1.15 and, with the processor, 1.5 of the bare one)"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench ProxiedRequest -benchtime=1x ./e2e | grep '^  '
say "HTTP/2 and HTTP/1.1 with TLS beside nginx and Caddy, by h2load (goal for HTTP/2: 1.5 × nginx, 0.7 × Caddy)"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench '(HTTP2|HTTPS)$' -benchtime=1x -timeout 30m ./e2e | grep '^  '
say "HTTP/3 beside HTTP/2, a client in Go each: Debian's h2load speaks no HTTP/3"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench 'HTTP3$' -benchtime=1x -timeout 30m ./e2e | grep '^  '
say "memory of open connections and streams"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench 'ConnectionMemory$' -benchtime=1x -timeout 30m ./e2e | grep '^  '
say "latency that the gateway adds (budget: p98 below 1 ms at 5000 requests a second)"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench AddedLatency -benchtime=1x ./e2e | grep '^  '
say "challenges: redirects, pages, JSON, pictures and sounds a second"
bench ./captcha '^Benchmark'
say "messages through the example rules with Bayes (budget: 50 k/s on one core), learning, model size; ANTIROBOT_DATA names the sets"
bench ./message '^Benchmark(ExampleRules|Train|ModelSize)'
say "beside HAProxy: what asking over SPOE costs, and over Lua and HTTP"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench BesideHAProxy -benchtime=1x ./e2e | grep '^  '
say "latency that judging a message inline adds to a post"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench InlineRoute -benchtime=1x ./e2e | grep '^  '
say "message API: CPU of a message over JSON-RPC beside a bare HTTP answer (budget: 10,000 judged and 5,000 taught a second on two cores)"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench MessageAPI -benchtime=1x ./e2e | grep '^  '
say "rules over requests"
bench ./rules/requestrules '^Benchmark'
say "slow half: one event"
bench ./verdict/processor '^Benchmark'
say "replay: a line of a log on its whole way (budget: a million a minute, 60 µs each), and its reading alone"
bench ./replay '^Benchmark'
say "formula: 100 trees of depth 6, beside a walk by pointers (budget: 5 µs, 0 allocations)"
bench ./verdict/formula '^BenchmarkScore'
say "store"
bench ./store/pebblestore '^BenchmarkSpend'
sustained=60s
[ -n "${QUICK:-}" ] && sustained=5s
[ -z "${QUICK:-}" ] && export ANTIROBOT_BENCH_LONG=1
say "counters: updates in memory on one core (budget: 1 M/s; reference: a mail system's shingler, 200 k/s over a whole cluster)"
bench ./verdict/counter '^BenchmarkAdd'
say "counters: sustained into Pebble with as many reads as updates (budget: 200 k/s on two cores)"
bench ./verdict/counter '^BenchmarkSustained' "-benchtime=$sustained -timeout=30m"
say "counters: reads, cold and warm; shingles of an event"
bench ./verdict/counter '^Benchmark(Read|Shingles)$'
say "counters: what summing saves, bytes given to the disk, pairs, reads that nothing holds in memory"
bench ./verdict/counter '^BenchmarkDisk' "-benchtime=$sustained -timeout=30m"
say "counters: bytes on disk (budget: 16 for a live ten-minute counter)"
bench ./store/pebblestore '^BenchmarkCounterDisk' '-benchtime=1x -timeout=30m'
say "counters: recovery after kill -9, beside a clean end"
bench ./verdict/counter '^BenchmarkRecovery' '-benchtime=1x -timeout=30m'
say "counters in a local Redis, beside redis-benchmark's rate of the bare command"
bench ./verdict/counter '^BenchmarkRedis' '-benchtime=5s -timeout=30m'
