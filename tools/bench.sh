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
say "latency that the gateway adds (budget: p98 below 1 ms at 5000 requests a second)"
ANTIROBOT_BIN=$PWD/antirobot BENCH_PAIRS=$pairs go test -run '^$' -bench AddedLatency -benchtime=1x ./e2e | grep '^  '
say "challenges: redirects, pages, JSON, pictures and sounds a second"
bench ./captcha '^Benchmark'
say "slow half: one event"
bench ./verdict/processor '^Benchmark'
say "store"
bench ./store/pebblestore '^BenchmarkSpend'
