-- The latest jobs in order of enqueueing.

local Recent = lazy(function(Recent)

-- Keep `recent` about as long as there are jobs: of its oldest entries those whose jobs are gone go, the others are moved to
-- `order`. For each job that comes or goes two entries are looked at, so there are never many more dead ones than live ones.
function Recent.sweep()
  if redis.call('LLEN', Key.recent) <= 2 * redis.call('HLEN', Key.jobs) + Script.CHUNK then return end
  local left = Script.to_sweep
  while left > 0 do
    local size = math.min(left, Script.CHUNK)
    local entries, alive = redis.call('LRANGE', Key.recent, 0, size - 1), {}
    for _, entry in ipairs(entries) do
      local ref = string.sub(entry, 7)
      if redis.call('HEXISTS', Key.jobs, ref) == 1 then
        alive[#alive + 1] = struct.unpack('>I6', entry)
        alive[#alive + 1] = ref
      end
    end
    Script.call_in_chunks('ZADD', Key.order, alive)
    redis.call('LPOP', Key.recent, size)  -- not before: if a command is refused, no job is in neither
    left = left - Script.CHUNK
  end
end

end)
