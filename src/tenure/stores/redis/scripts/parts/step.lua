-- The step itself: its time, its arguments, what it gathers, and the moves that nearly every step is made of.

-- A part whose functions are made when one of them is first asked for. Most steps need few of them, and Lua would make them
-- all at every call, which takes longer than a small step itself.
local parts = {
  __index = function(part, name)
    setmetatable(part, nil)
    part.define(part)
    return part[name]
  end,
}
local function later(define)
  return setmetatable({ define = define }, parts)
end

local Step = {
  now = tonumber(ARGV[1]),
  read_so_far = 1,
  loaded = {},        -- every job that the step has to do with in full, by ref; false if there is none
  in_queues = {},     -- what has happened and how often, to be counted at the end, by queue
  by_workers = {},    -- and by worker
  woken = {},         -- how much there is new in a queue, for idle workers to be woken at the end
  timed = {},         -- when a queue has something to do because of what the step does, by queue
  to_sweep = 0,       -- entries of `recent` to be looked at at the end
  told = false,       -- what has become of jobs that the caller did not name: how, ref, task and queue, one after the other
  CHUNK = 1000,       -- values that a command gets at most: Lua's stack holds some thousands
}
if not Step.now then
  local time = redis.call('TIME')
  Step.now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- A time as the score of a sorted set: whole microseconds as text, which Redis reads several times faster than a fraction.
function Step.score_of(time)
  return time == math.huge and 'inf' or string.format('%.0f', time * 1000000)
end

-- The arguments one by one, the time not among them.
function Step.arg()
  Step.read_so_far = Step.read_so_far + 1
  return ARGV[Step.read_so_far]
end

-- The arguments that are left.
function Step.rest()
  local found = {}
  for i = Step.read_so_far + 1, #ARGV do found[#found + 1] = ARGV[i] end
  return found
end

-- A command with many values for one key, as often as it takes.
function Step.each_chunk(command, key, values)
  for first = 1, #values, Step.CHUNK do
    redis.call(command, key, unpack(values, first, math.min(first + Step.CHUNK - 1, #values)))
  end
end

-- Fields of a hash, in order; false for those that are not there.
function Step.fields_of(key, fields)
  if #fields == 0 then return {} end
  if #fields <= Step.CHUNK then return redis.call('HMGET', key, unpack(fields)) end
  local found = {}
  for first = 1, #fields, Step.CHUNK do
    local some = redis.call('HMGET', key, unpack(fields, first, math.min(first + Step.CHUNK - 1, #fields)))
    for i = 1, #some do found[#found + 1] = some[i] end
  end
  return found
end

-- Draw so many places at the back of the line: the number before the first of them.
function Step.draw(count)
  return redis.call('HINCRBY', Key.meta, 'seq', count) - count
end

function Step.seq_of(number)
  return struct.pack('>I6', number)
end

-- There is so much new in a queue: as many idle workers may be woken.
function Step.wake(queue, number)
  Step.woken[queue] = (Step.woken[queue] or 0) + (number or 1)
end

-- Let the caller know what has become of a job that it did not name.
function Step.tell(how, job)
  local told = Step.told or {}
  local n = #told
  told[n + 1], told[n + 2], told[n + 3], told[n + 4] = how, job.ref, job.task, job.queue
  Step.told = told
end

-- Let a list of markers have so many, up to a hundred. Those who wait at it take them at once, one each.
function Step.fill(key, number)
  local missing = math.min(number, 100) - redis.call('LLEN', key)
  if missing > 0 then
    local markers = {}
    for i = 1, missing do markers[i] = 1 end
    redis.call('RPUSH', key, unpack(markers))
  end
end

-- A queue has something to do at this time, not before it.
function Step.at(queue, time)
  local known = Step.timed[queue]
  if time < math.huge and not (known and known <= time) then Step.timed[queue] = time end
end

function Step.write_times()
  for queue, time in pairs(Step.timed) do redis.call('ZADD', Key.timed, 'LT', Step.score_of(time), queue) end
  Step.timed = {}
end

-- Name a queue to up to so many of the idle workers that serve it by a pattern.
function Step.call(queue, number)
  local listeners = Step.listeners or redis.call('HGETALL', Key.listeners)
  Step.listeners = listeners
  for i = 1, #listeners, 2 do
    local served = false
    for sign, expression in string.gmatch(listeners[i + 1], '([+-])(%S+)') do
      if string.find(queue, expression) then
        served = sign == '+'
        if not served then break end
      end
    end
    if served then
      local calls = Key.calls .. listeners[i]
      local room = math.min(number, 100 - redis.call('LLEN', calls))
      if room > 0 then
        local names = {}
        for n = 1, room do names[n] = queue end
        redis.call('RPUSH', calls, unpack(names))
      end
    end
  end
end

function Step.wake_workers()
  for queue, number in pairs(Step.woken) do
    if redis.call('SISMEMBER', Key.paused, queue) == 0 then
      redis.call('ZADD', Key.ready, 0, queue)
      Step.fill(Key.marker .. queue, number)
      Step.call(queue, number)
    end
  end
  Step.woken = {}
  if next(Step.timed) then Step.write_times() end
end

-- A queue comes to exist: workers of earlier versions that serve patterns look again, all of them.
function Step.found_queue(queue)
  if redis.call('SADD', Key.queues, queue) == 1 then Step.fill(Key.arrivals, 100) end
end
