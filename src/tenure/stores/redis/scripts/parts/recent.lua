-- The latest jobs in order of enqueueing.

local Recent = later(function(Recent)

-- Keep `recent` about as long as there are jobs: of its oldest entries those whose jobs are gone go, the others are moved to
-- `order`. For each job that comes or goes two entries are looked at, so there are never many more dead ones than live ones.
function Recent.sweep()
  if redis.call('LLEN', Key.recent) <= 2 * redis.call('HLEN', Key.jobs) + Step.CHUNK then return end
  local left = Step.to_sweep
  while left > 0 do
    local some = math.min(left, Step.CHUNK)
    local entries, alive = redis.call('LRANGE', Key.recent, 0, some - 1), {}
    for _, entry in ipairs(entries) do
      local ref = string.sub(entry, 7)
      if redis.call('HEXISTS', Key.jobs, ref) == 1 then
        alive[#alive + 1] = struct.unpack('>I6', entry)
        alive[#alive + 1] = ref
      end
    end
    Step.each_chunk('ZADD', Key.order, alive)
    redis.call('LPOP', Key.recent, some)  -- not before: if a command is refused, no job is in neither
    left = left - Step.CHUNK
  end
end

end)
