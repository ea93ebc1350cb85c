-- The step itself: its time, its arguments, what it gathers, and the moves that nearly every step is made of.

-- A part whose functions are made when one of them is first asked for. Most steps need few of them, and Lua would make them
-- all at every call, which takes longer than a small step itself.
local lazy_part = {
  __index = function(part, name)
    setmetatable(part, nil)
    part.define(part)
    return part[name]
  end,
}
local function lazy(define)
  return setmetatable({ define = define }, lazy_part)
end

local Script = {
  now = tonumber(ARGV[1]),
  args_read = 1,
  loaded = {},        -- every job that the step has to do with in full, by ref; false if there is none
  queue_totals = {},  -- what has happened and how often, to be counted at the end, by queue
  worker_totals = {}, -- and by worker
  new_work = {},      -- how much there is new in a queue, for idle workers to be woken at the end
  due_at = {},        -- when a queue has something to do because of what the step does, by queue
  to_sweep = 0,       -- entries of `recent` to be looked at at the end
  consequences = false,-- what has become of jobs that the caller did not name: how, ref, task and queue, one after the other
  CHUNK = 1000,       -- values that a command gets at most: Lua's stack holds some thousands
}
if not Script.now then
  local time = redis.call('TIME')
  Script.now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- A time as the score of a sorted set: whole microseconds as text, which Redis reads several times faster than a fraction.
function Script.score_of(time)
  return time == math.huge and 'inf' or string.format('%.0f', time * 1000000)
end

-- The arguments one by one, the time not among them.
function Script.arg()
  Script.args_read = Script.args_read + 1
  return ARGV[Script.args_read]
end

-- The arguments that are left.
function Script.remaining_args()
  local found = {}
  for i = Script.args_read + 1, #ARGV do found[#found + 1] = ARGV[i] end
  return found
end

-- A command with many values for one key, as often as it takes.
function Script.call_in_chunks(command, key, values)
  for first = 1, #values, Script.CHUNK do
    redis.call(command, key, unpack(values, first, math.min(first + Script.CHUNK - 1, #values)))
  end
end

-- Fields of a hash, in order; false for those that are not there.
function Script.fields_of(key, fields)
  if #fields == 0 then return {} end
  if #fields <= Script.CHUNK then return redis.call('HMGET', key, unpack(fields)) end
  local found = {}
  for first = 1, #fields, Script.CHUNK do
    local page = redis.call('HMGET', key, unpack(fields, first, math.min(first + Script.CHUNK - 1, #fields)))
    for i = 1, #page do found[#found + 1] = page[i] end
  end
  return found
end

-- Draw so many members at the back of the line: the number before the first of them.
function Script.draw_seqs(count)
  return redis.call('HINCRBY', Key.meta, 'seq', count) - count
end

function Script.seq_of(number)
  return struct.pack('>I6', number)
end

-- There is so much new in a queue: as many idle workers may be woken.
function Script.add_new_work(queue, number)
  Script.new_work[queue] = (Script.new_work[queue] or 0) + (number or 1)
end

-- Let the caller know what has become of a job that it did not name.
function Script.add_consequence(how, job)
  local list = Script.consequences or {}
  local n = #list
  list[n + 1], list[n + 2], list[n + 3], list[n + 4] = how, job.ref, job.task, job.queue
  Script.consequences = list
end

-- Let a list of markers have so many, up to a hundred. Those who wait at it take them at once, one each.
function Script.fill_markers(key, number)
  local missing = math.min(number, 100) - redis.call('LLEN', key)
  if missing > 0 then
    local markers = {}
    for i = 1, missing do markers[i] = 1 end
    redis.call('RPUSH', key, unpack(markers))
  end
end

-- A queue has something to do at this time, not before it.
function Script.set_due(queue, time)
  local known = Script.due_at[queue]
  if time < math.huge and not (known and known <= time) then Script.due_at[queue] = time end
end

function Script.write_due_times()
  for queue, time in pairs(Script.due_at) do redis.call('ZADD', Key.timed, 'LT', Script.score_of(time), queue) end
  Script.due_at = {}
end

-- Name a queue to up to so many of the idle workers that serve it by a pattern.
function Script.call_listeners(queue, number)
  local listeners = Script.listeners or redis.call('HGETALL', Key.listeners)
  Script.listeners = listeners
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

function Script.wake_workers()
  for queue, number in pairs(Script.new_work) do
    if redis.call('SISMEMBER', Key.paused, queue) == 0 then
      redis.call('ZADD', Key.ready, 0, queue)
      Script.fill_markers(Key.marker .. queue, number)
      Script.call_listeners(queue, number)
    end
  end
  Script.new_work = {}
  if next(Script.due_at) then Script.write_due_times() end
end

-- A queue comes to exist: workers of earlier versions that serve patterns look again, all of them.
function Script.register_queue(queue)
  if redis.call('SADD', Key.queues, queue) == 1 then Script.fill_markers(Key.arrivals, 100) end
end
