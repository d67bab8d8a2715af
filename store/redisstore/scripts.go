package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol names scripts by it
	"encoding/hex"

	"github.com/redis/rueidis"
)

// script runs atomically on a server. It is sent by its digest, and in full to a server that does not know it.
type script struct {
	body, sha string
}

func newScript(body string) *script {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // see above
	return &script{body, hex.EncodeToString(sum[:])}
}

// scripts has every script. A counter starts with SET: a server on disk may still hold an expired one. Counts are
// compared as text: Lua's numbers are exact up to 2^53.
type scripts struct {
	put, swap, remove, reap, take, incr, push, hello, count *script
}

const luaLess = `
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local function begin(key, ttl)
  if ttl == '0' then redis.call('SET', key, '0') else redis.call('SET', key, '0', 'PX', ttl) end
end
`

func newScripts() scripts {
	return scripts{
		// value, index; value, ttl, member
		put: newScript(`
if ARGV[2] == '0' then redis.call('SET', KEYS[1], ARGV[1])
else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
redis.call('ZADD', KEYS[2], 0, ARGV[3])
return 1`),
		// value, index; value, ttl, member, 'v' or 'a' (absent), old value
		swap: newScript(`
local cur = redis.call('GET', KEYS[1])
if ARGV[4] == 'a' then
  if cur then return 0 end
elseif cur ~= ARGV[5] then return 0 end
if ARGV[2] == '0' then redis.call('SET', KEYS[1], ARGV[1])
else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
redis.call('ZADD', KEYS[2], 0, ARGV[3])
return 1`),
		// value, index; member
		remove: newScript(`
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1`),
		// index, values; members: removes members from the index whose value has expired
		reap: newScript(`
local n = 0
for i = 2, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then n = n + redis.call('ZREM', KEYS[1], ARGV[i-1]) end
end
return n`),
		// counter; want, limit, ttl: returns the old count
		take: newScript(luaLess + `
local was = redis.call('GET', KEYS[1])
local cur = was or '0'
if not less(cur, ARGV[2]) then return cur end
if not was then begin(KEYS[1], ARGV[3]) end
local sum = redis.pcall('INCRBY', KEYS[1], ARGV[1])
if type(sum) == 'table' then
  if not string.find(sum.err, 'overflow') then return sum end
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
elseif less(ARGV[2], redis.call('GET', KEYS[1])) then
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
end
return cur`),
		// counter; n, its magnitude, ttl: returns the new count
		incr: newScript(luaLess + `
local was = redis.call('GET', KEYS[1])
if string.sub(ARGV[1], 1, 1) == '-' then
  if not was then return '0' end
  if less(ARGV[2], was) then redis.call('INCRBY', KEYS[1], ARGV[1])
  else redis.call('SET', KEYS[1], '0', 'KEEPTTL') end
  return redis.call('GET', KEYS[1])
end
if not was then begin(KEYS[1], ARGV[3]) end
local sum = redis.pcall('INCRBY', KEYS[1], ARGV[1])
if type(sum) == 'table' then
  if not string.find(sum.err, 'overflow') then return sum end
  redis.call('SET', KEYS[1], '9223372036854775807', 'KEEPTTL')
end
return redis.call('GET', KEYS[1])`),
		// stream; message, how many to keep: each message names its predecessor, so that readers notice gaps
		push: newScript(`
local before = '0-0'
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if #last > 0 then before = last[1][1] end
return redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[2], '*', 'm', ARGV[1], 'p', before)`),
		// schema, life; our version, a new name: raises the version, names a nameless life, and returns seconds,
		// microseconds, version and name
		hello: newScript(`
local v = redis.call('GET', KEYS[1])
if not v or tonumber(v) < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1])
  v = ARGV[1]
end
local life = redis.call('GET', KEYS[2])
if not life then
  redis.call('SET', KEYS[2], ARGV[2])
  life = ARGV[2]
end
local t = redis.call('TIME')
return {t[1], t[2], v, life}`),
		// numbers, records; number, step, then field, n and ttl of each record: adds each n unless the numbers have
		// this step, and returns 1 for each sum of 1, else 0. A record of the wrong type is skipped
		count: newScript(luaLess + `
local was = redis.call('HGET', KEYS[1], ARGV[2])
if was then
  local number, fresh = string.match(was, '^(%d+):(%d*)$')
  if number == ARGV[1] then return fresh end
  if less(ARGV[1], number) then return '' end
end
local fresh = {}
for i = 2, #KEYS do
  local at = 3 * i - 3
  local sum = redis.pcall('HINCRBY', KEYS[i], ARGV[at], ARGV[at+1])
  if type(sum) == 'table' then
    if string.find(sum.err, 'overflow') then
      redis.call('HSET', KEYS[i], ARGV[at], '9223372036854775807')
    elseif not string.find(sum.err, 'WRONGTYPE') then return sum end
    sum = 0
  elseif sum == tonumber(ARGV[at+1]) then redis.call('EXPIRE', KEYS[i], ARGV[at+2]) end
  if ARGV[2] == 'p' then fresh[i-1] = sum == 1 and '1' or '0' end
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[1] .. ':' .. table.concat(fresh))
redis.call('EXPIRE', KEYS[1], 691200)
return table.concat(fresh)`),
	}
}

type call struct {
	script *script
	keys   []string // all in one slot
	args   []string
}

func (c *call) short(cl rueidis.Client) rueidis.Completed {
	return cl.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

func (c *call) full(cl rueidis.Client) rueidis.Completed {
	return cl.B().Eval().Script(c.script.body).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

func unknownScript(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && e.IsNoScript()
}

// run runs a script. With durable, the writes also wait for replicas.
func (s *servers) run(ctx context.Context, durable bool, sc *script, keys []string, args ...string) (
	rueidis.RedisMessage, error,
) {
	c := call{sc, keys, args}
	m, err := s.do(ctx, durable, c.short)
	if unknownScript(err) {
		m, err = s.do(ctx, durable, c.full)
	}
	return m, s.failed(err)
}

// runMany runs scripts at once, and again in full where a server did not know them.
func (s *servers) runMany(ctx context.Context, calls []call) ([]rueidis.RedisResult, error) {
	results, err := s.doMulti(ctx, len(calls),
		func(cl rueidis.Client, i int) rueidis.Completed { return calls[i].short(cl) })
	var unknown []int
	for i := range results {
		if unknownScript(results[i].Error()) {
			unknown = append(unknown, i)
		}
	}
	if err != nil || len(unknown) == 0 {
		return results, err
	}
	again, err := s.doMulti(ctx, len(unknown), func(cl rueidis.Client, i int) rueidis.Completed {
		return calls[unknown[i]].full(cl)
	})
	for j := range again {
		results[unknown[j]] = again[j]
	}
	return results, err
}
