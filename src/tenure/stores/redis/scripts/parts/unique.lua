-- Unique keys: which job owns one, and until when.

local Unique = lazy(function(Unique)

function Unique.field(task, key)
  return task .. '\0' .. key
end

-- The ref of the job that owns a unique key now; nil if it is free.
function Unique.owner_of(task, key)
  local held = redis.call('HGET', Key.uniques, Unique.field(task, key))
  if held then
    local ends = struct.unpack('>d', held)
    local owner = string.sub(held, 9)
    if (ends == 0 or ends > Script.now) and redis.call('HEXISTS', Key.jobs, owner) == 1 then return owner end
  end
end

function Unique.window_end(job)
  return job.options.window and job.created + job.options.window
end

function Unique.claim(job)
  local field, ends = Unique.field(job.task, job.options.unique), Unique.window_end(job)
  redis.call('HSET', Key.uniques, field, struct.pack('>d', ends or 0) .. job.ref)
  if ends then redis.call('ZADD', Key.windows, Script.score_of(ends), field) else redis.call('ZREM', Key.windows, field) end
end

function Unique.release(job)
  if not job.options.unique then return end
  local field = Unique.field(job.task, job.options.unique)
  local held = redis.call('HGET', Key.uniques, field)
  -- After its window the key may belong to another job.
  if held and string.sub(held, 9) == job.ref then
    redis.call('HDEL', Key.uniques, field)
    redis.call('ZREM', Key.windows, field)
  end
end

end)
