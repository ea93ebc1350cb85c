-- wait: read those jobs that are final, nothing for those that do not exist, and 0 for the others, which are announced on
-- this channel when they become final: one step, so that none becomes final in between.
-- Arguments: the channel, refs. Answers: as `describe` does.
-- include: step, draining, totals, jobs, edges, reading, recent, done

local channel, refs = Step.arg(), Step.rest()
Jobs.load_all(refs)
local told = Reading.describe_all(refs)
for i, ref in ipairs(refs) do
  local job = Jobs.load(ref)
  if job and not Jobs.final(job.state) then
    told[i] = 0
    local channels = redis.call('HGET', Key.waiters, ref) or ''
    if not string.find(channels, channel, 1, true) then
      redis.call('HSET', Key.waiters, ref, channels .. ' ' .. channel)
    end
    if not Jobs.has(job, flag.awaited) then Jobs.mark(job, flag.awaited) end
  end
end
return Step.done(told)
