-- retire: remove a worker that is known to be dead and take up to so many of its jobs, as reap does and with its answer.
-- Arguments: the worker, limit, the reason (or nothing).
-- include: step, draining, totals, jobs, flows, runs, unique, edges, history, ending, losing, recent, running, done

local worker, limit, reason = Step.arg(), tonumber(Step.arg()), Step.arg()
local wanted = math.min(limit, tonumber(redis.call('HGET', Key.holding, worker)) or 0)
local jobs = {}
for _, ref in ipairs(Running.with(8, worker, wanted)) do jobs[#jobs + 1] = Jobs.load(ref) or nil end
local answer = Step.done(Losing.all(jobs, reason))
redis.call('DEL', Key.worker .. worker)
redis.call('ZREM', Key.workers, worker)
return answer
