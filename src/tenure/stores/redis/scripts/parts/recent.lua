-- The list of the latest jobs in the order in which they were enqueued.

local Recent = lazy(function(Recent)

-- Bound the length of `recent` by the number of jobs. Of its oldest entries, those of removed jobs are dropped and the
-- others move to `order`. Each job that comes or goes pays for two entries, so that there are never many more dead entries
-- than live ones.
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
    redis.call('LPOP', Key.recent, size)  -- last: if a command is refused, every job is still in one of the two
    left = left - Script.CHUNK
  end
end

end)
