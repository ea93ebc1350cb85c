-- busy_queues: find queues that have something to do, from the indexes `ready` and `timed`. Brings the entries of `timed`
-- that it looks at up to date.
-- ARGV: time, limit of names; then how many entries of `timed` to skip and the score that bounds them. Those two are the
-- last two values of the previous call's reply; 0 and '' on the first call.
-- Returns: the first names in `ready`; queues that are due within a second; queues with an expired lease or parking; 1 if
-- the caller should call `survey`, else 0; how many entries of `timed` the next call should skip, false if there are no
-- more; the score that bounds them.
-- include: script, write_when_full, queue_index

local PAGE = 100  -- queues of `timed` that one call looks at

local limit, passed, before = tonumber(Script.arg()), tonumber(Script.arg()), Script.arg()
-- Later calls use the bound of the first one, exclusively: a queue that was looked at and stays due is stored behind it.
local last_score = before == '' and Script.score_of(Script.now + LOOK_AHEAD) or '(' .. before
local reached = redis.call('ZRANGEBYSCORE', Key.timed, '-inf', last_score, 'LIMIT', passed, PAGE)
for _, queue in ipairs(reached) do QueueIndex.refresh_time(queue) end
local last = tonumber(redis.call('HGET', Key.meta, 'turn:survey'))
local turn = not (last and last <= Script.now and Script.now < last + 1)
if turn then redis.call('HSET', Key.meta, 'turn:survey', string.format('%.17g', Script.now)) end
local names = limit > 0 and redis.call('ZRANGEBYLEX', Key.ready, '-', '+', 'LIMIT', 0, limit) or {}
local more = #reached == PAGE and passed + QueueIndex.not_yet_due
return { names, QueueIndex.soon, QueueIndex.overdue, turn and 1 or 0, more, before == '' and last_score or before }
