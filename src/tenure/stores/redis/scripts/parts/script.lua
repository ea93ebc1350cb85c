-- The running script: its time, its arguments, what it gathers for `finish`, and helpers that nearly every script uses.
-- KEYS are the fixed keys of the namespace, see `keys.py`. ARGV[1] is the time in seconds, or '' for the server's clock.
-- Lists of
-- ARGV elsewhere that leave out the time continue where the caller has stopped reading.

-- A part whose functions are built on first use. Most scripts need few of them, and Lua would build all of them at every
-- call, which takes longer than a small script itself.
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
  loaded = {},  -- jobs that the script has parsed, by ref; false if there is no such job
  queue_totals = {},  -- counts to add at the end, by queue
  worker_totals = {},  -- counts to add at the end, by worker
  new_work = {},  -- number of jobs that are new in line, by queue; idle workers are woken for them at the end
  due_at = {},  -- earliest time at which a queue has something to do because of this script
  to_sweep = 0,  -- entries of `recent` to sweep at the end
  consequences = false,  -- changes of jobs that the caller did not name: change, ref, task and queue in turn
  CHUNK = 1000,  -- most values in one command: Lua's stack holds a few thousand
}
if not Script.now then
  local time = redis.call('TIME')
  Script.now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- A time as a score: whole microseconds as text, which Redis parses several times faster than a fraction.
function Script.score_of(time)
  return time == math.huge and 'inf' or string.format('%.0f', time * 1000000)
end

-- The next argument after the time.
function Script.arg()
  Script.args_read = Script.args_read + 1
  return ARGV[Script.args_read]
end

-- All arguments that have not been read.
function Script.remaining_args()
  local found = {}
  for i = Script.args_read + 1, #ARGV do found[#found + 1] = ARGV[i] end
  return found
end

-- Call a command with many values for one key, as often as needed.
function Script.call_in_chunks(command, key, values)
  for first = 1, #values, Script.CHUNK do
    redis.call(command, key, unpack(values, first, math.min(first + Script.CHUNK - 1, #values)))
  end
end

-- Fields of a hash, in order; false for a missing one.
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

-- Draw `count` seqs at the back of the line. Returns the number before the first of them.
function Script.draw_seqs(count)
  return redis.call('HINCRBY', Key.meta, 'seq', count) - count
end

function Script.seq_of(number)
  return struct.pack('>I6', number)
end

-- A queue has `number` new jobs (1 if not given): as many idle workers may be woken.
function Script.add_new_work(queue, number)
  Script.new_work[queue] = (Script.new_work[queue] or 0) + (number or 1)
end

-- Report a change of a job that the caller did not name.
function Script.add_consequence(how, job)
  local list = Script.consequences or {}
  local n = #list
  list[n + 1], list[n + 2], list[n + 3], list[n + 4] = how, job.ref, job.task, job.queue
  Script.consequences = list
end

-- Fill a list of markers up to `number`, at most 100. Workers that wait at the list take one each at once.
function Script.fill_markers(key, number)
  local missing = math.min(number, 100) - redis.call('LLEN', key)
  if missing > 0 then
    local markers = {}
    for i = 1, missing do markers[i] = 1 end
    redis.call('RPUSH', key, unpack(markers))
  end
end

-- A queue has something to do at this time, and maybe not earlier.
function Script.set_due(queue, time)
  local known = Script.due_at[queue]
  if time < math.huge and not (known and known <= time) then Script.due_at[queue] = time end
end

function Script.write_due_times()
  for queue, time in pairs(Script.due_at) do redis.call('ZADD', Key.timed, 'LT', Script.score_of(time), queue) end
  Script.due_at = {}
end

-- Call up to `number` idle workers that serve the queue by a pattern.
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

-- Add a queue to the set of all queues. If it is new, wake all workers of earlier versions that serve patterns.
function Script.register_queue(queue)
  if redis.call('SADD', Key.queues, queue) == 1 then Script.fill_markers(Key.arrivals, 100) end
end
