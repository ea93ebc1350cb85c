-- busy_queues: the first queues by name that may have something to do, those that will soon, those whose leases or parkings are over, 1
-- if it is the caller's turn to `survey`; and, if `timed` may have more that is to be looked at now, how many of it to pass over then,
-- and the score before which it stands.
-- Arguments: how many names at most; the last two answers of the call before, or 0 and nothing.
-- include: step, draining, indexing

local LOOK_AT = 100  -- queues of `timed` that a step looks at

local limit, passed, before = tonumber(Step.arg()), tonumber(Step.arg()), Step.arg()
-- That of the first call, exclusively: what a call has looked at and is to be looked at again stands behind it.
local last_score = before == '' and Step.score_of(Step.now + AHEAD) or '(' .. before
local reached = redis.call('ZRANGEBYSCORE', Key.timed, '-inf', last_score, 'LIMIT', passed, LOOK_AT)
for _, queue in ipairs(reached) do Indexing.look(queue) end
local last = tonumber(redis.call('HGET', Key.meta, 'turn:survey'))
local turn = not (last and last <= Step.now and Step.now < last + 1)
if turn then redis.call('HSET', Key.meta, 'turn:survey', string.format('%.17g', Step.now)) end
local names = limit > 0 and redis.call('ZRANGEBYLEX', Key.ready, '-', '+', 'LIMIT', 0, limit) or {}
local more = #reached == LOOK_AT and passed + Indexing.stayed
return { names, Indexing.soon, Indexing.overdue, turn and 1 or 0, more, before == '' and last_score or before }
