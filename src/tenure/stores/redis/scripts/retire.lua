-- retire: remove a worker that is known to be dead and take up to so many of its jobs, as reap does and with its answer.
-- Arguments: the worker, limit, the reason (or nothing).
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, losing, recent, done

local worker, limit, reason = Step.arg(), tonumber(Step.arg()), Step.arg()
local wanted = math.min(limit, tonumber(redis.call('HGET', Key.holding, worker)) or 0)
local found = {}

-- Nothing says which jobs a worker holds, for every lease would pay for that: all that run are looked at, of which there are
-- no more than workers have room for.
for _, queue in ipairs(redis.call('SMEMBERS', Key.queues)) do
  local first = 0
  while #found < wanted do
    local places, refs = redis.call('ZRANGE', Key.held .. queue, first, first + Step.CHUNK - 1), {}
    for i = 1, #places do refs[i] = string.sub(places[i], 7) end
    for i, record in ipairs(Step.fields_of(Key.records, refs)) do
      local holder = select(9, cmsgpack.unpack_limit(record, 8, 1))
      if holder == worker and #found < wanted then found[#found + 1] = places[i] end
    end
    if #places < Step.CHUNK then break end
    first = first + Step.CHUNK
  end
end
local answer = Step.done(Losing.all(found, reason))
redis.call('DEL', Key.worker .. worker)
redis.call('ZREM', Key.workers, worker)
return answer
