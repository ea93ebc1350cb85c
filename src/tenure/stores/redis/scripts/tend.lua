-- tend: the first queues by name that may have something to do, those that will soon, those whose leases or parkings are over, and 1
-- if it is the caller's turn to `survey`.
-- Arguments: how many names at most.
-- include: step, draining, indexing

local LOOK_AT = 200  -- queues of `timed` that a step looks at

local limit = tonumber(Step.arg())
local reached = redis.call('ZRANGEBYSCORE', Key.timed, '-inf', Step.score_of(Step.now + AHEAD), 'LIMIT', 0, LOOK_AT)
for _, queue in ipairs(reached) do Indexing.look(queue) end
local last = tonumber(redis.call('HGET', Key.meta, 'turn:survey'))
local turn = not (last and last <= Step.now and Step.now < last + 1)
if turn then redis.call('HSET', Key.meta, 'turn:survey', string.format('%.17g', Step.now)) end
local names = redis.call('ZRANGEBYLEX', Key.ready, '-', '+', 'LIMIT', 0, limit)
return { names, Indexing.soon, Indexing.overdue, turn and 1 or 0 }
