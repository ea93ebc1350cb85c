-- retire: remove a worker that is known to be dead, and take up to `limit` of its jobs as `reap` does.
-- ARGV: time, worker id, limit, reason ('' for none).
-- Returns: as `reap`.
-- include: script, write_when_full, totals, jobs, flows, runs, unique, edges, history, ending, lost_jobs, recent, running_jobs, finish

local worker, limit, reason = Script.arg(), tonumber(Script.arg()), Script.arg()
local wanted = math.min(limit, tonumber(redis.call('HGET', Key.holding, worker)) or 0)
local jobs = {}
for _, ref in ipairs(RunningJobs.with_field(8, worker, wanted)) do jobs[#jobs + 1] = Jobs.load(ref) or nil end
local answer = Script.finish(LostJobs.lose_all(jobs, reason))
redis.call('DEL', Key.worker .. worker)
redis.call('ZREM', Key.workers, worker)
return answer
