-- The end of every step that changes jobs.

-- Keep `recent` about as long as there are jobs: of its oldest entries those whose jobs are gone go, the others are moved to
-- `order`. Each job that comes or goes pays for two entries, so there are never many more dead ones than live ones.
function Step.sweep()
  if redis.call('LLEN', Key.recent) <= 2 * redis.call('HLEN', Key.jobs) + Step.CHUNK then return end
  local left = 2 * Step.come_and_gone
  while left > 0 do
    local entries, alive = redis.call('LPOP', Key.recent, math.min(left, Step.CHUNK)), {}
    for _, entry in ipairs(entries or {}) do
      local ref = string.sub(entry, 7)
      if redis.call('HEXISTS', Key.jobs, ref) == 1 then
        alive[#alive + 1] = struct.unpack('>I6', entry)
        alive[#alive + 1] = ref
      end
    end
    Step.each_chunk('ZADD', Key.order, alive)
    left = left - Step.CHUNK
  end
end

-- Write all that was gathered.
function Step.done(answer)
  if next(Step.loaded) then Jobs.save_all() end
  if Step.come_and_gone > 0 then Step.sweep() end
  Step.write_totals()
  Step.wake_workers()
  return answer
end
