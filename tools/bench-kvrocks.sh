#!/usr/bin/env bash
# Measures counts on Kvrocks: a master and two replicas with Redis' sentinels, all on this machine (docs/adr/0043). KVROCKS is the program.
set -eu
cd "$(dirname "$0")/.."
: "${KVROCKS:?is the path of the program kvrocks}"
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
say() { printf '\n== %s\n' "$*"; }
node() { # number, extra lines
	mkdir -p "$dir/$1"
	printf 'bind 127.0.0.1\nport %d\nworkers 2\ndir %s\nrocksdb.write_buffer_size 64\n%s\n' $((16700 + $1)) "$dir/$1" "${2:-}" >"$dir/$1.conf"
	"$KVROCKS" -c "$dir/$1.conf" >"$dir/$1.log" 2>&1 &
	pids+=($!)
	until redis-cli -p $((16700 + $1)) ping >/dev/null 2>&1; do sleep 0.2; done
}
node 1
master=${pids[0]}
node 2 'slaveof 127.0.0.1 16701'
node 3 'slaveof 127.0.0.1 16701'
for i in 1 2 3; do
	printf 'port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor counts 127.0.0.1 16701 2\nsentinel down-after-milliseconds counts 3000\nsentinel failover-timeout counts 10000\n' \
		$((16710 + i)) "$dir" >"$dir/s$i.conf"
	redis-server "$dir/s$i.conf" --sentinel >"$dir/s$i.log" 2>&1 &
	pids+=($!)
done
knows() { redis-cli -p 16711 sentinel master counts | grep -A1 "^$1$" | grep -q '^2$'; }
until knows num-slaves && knows num-other-sentinels; do sleep 0.5; done
export ANTIROBOT_STORE_URL=redis-sentinel://127.0.0.1:16711,127.0.0.1:16712,127.0.0.1:16713/counts
bench() { go test -run '^$' -bench "$2" -benchtime "$3" -timeout 30m "$1" | grep -vE '^(goos|goarch|pkg|cpu|PASS|ok)'; }
cpu() { awk '{printf "%.1f", ($14 + $15) / 100}' "/proc/$1/stat"; }

say "a million new counters, each with two records: then their bytes on the master's disk"
bench ./verdict/counter 'BenchmarkRedis$/batches/new' 15x
redis-cli -p 16701 compact >/dev/null
sleep 2
while redis-cli -p 16701 info | grep -q '^is_compacting:yes'; do sleep 1; done
keys=$((65536 * 15))
find "$dir/1" -name '*.sst' -printf '%s\n' | awk -v n=$keys '{s += $1} END {printf "%.0f bytes a counter, %d counters\n", s / n, n}'
for load in zipf uniform; do
	say "updates of ten million counters, $load, and the processor seconds of the master"
	before=$(cpu "$master")
	bench ./verdict/counter "BenchmarkRedis\$/batches/$load" 5x
	printf '%s s before, %s s after\n' "$before" "$(cpu "$master")"
done
say "what has waited goes out, and for comparison call by call"
bench ./store/backlog BenchmarkDrain 1x
say "the master killed under load"
ANTIROBOT_BENCH_KILL="kill -9 $master" bench ./store/backlog BenchmarkLoss 1x
say "and replaced"
began=$SECONDS
node 1 # sentinel makes it a replica
until redis-cli -p 16701 info replication | grep -q '^master_link_status:up'; do sleep 0.2; done
echo "it follows the new master after $((SECONDS - began)) s"
