-- The index of queues that have something to do: `ready` for now, `timed` for later. Scripts add a queue when they change
-- it. This part corrects entries that are too early or out of date.

local QueueIndex = {
  soon = {}, overdue = {},
  not_yet_due = 0,  -- queues looked at that are due soon but not yet, and so keep their position in `timed`
}

local LOOK_AHEAD = 1  -- seconds that a queue is reported early, so that its workers lease on time instead of one look later
local RECHECK_AFTER = 60  -- seconds until a queue is checked again whose due jobs no worker takes

-- Recompute the entry of a queue in `timed` from what is stored. Report the queue if it is due soon or overdue.
function QueueIndex.refresh_time(queue)
  local function first(family)
    local score = redis.call('ZRANGE', family .. queue, 0, 0, 'WITHSCORES')[2]
    return score and tonumber(score) / 1000000 or math.huge
  end
  local ends, due = math.min(first(Key.held), first(Key.parked)), math.min(first(Key.scheduled), first(Key.expiring))
  if due < math.huge and redis.call('SISMEMBER', Key.paused, queue) == 1 then due = math.huge end
  local at = math.min(ends, due)
  if at == math.huge then return redis.call('ZREM', Key.timed, queue) end
  if at <= Script.now + LOOK_AHEAD then QueueIndex.soon[#QueueIndex.soon + 1] = queue end
  if at <= Script.now + LOOK_AHEAD and at > Script.now then QueueIndex.not_yet_due = QueueIndex.not_yet_due + 1 end
  if ends <= Script.now then QueueIndex.overdue[#QueueIndex.overdue + 1] = queue end
  if due <= Script.now then
    redis.call('ZADD', Key.ready, 0, queue)
    at = math.min(math.max(ends, Script.now + LOOK_AHEAD), Script.now + RECHECK_AFTER)
  end
  redis.call('ZADD', Key.timed, Script.score_of(math.max(at, ends <= Script.now and Script.now + LOOK_AHEAD or 0)), queue)
end

-- Recompute the entries of a queue in `ready` and `timed` from what is stored.
function QueueIndex.refresh(queue)
  local inbox = redis.call('EXISTS', Key.inbox .. queue) == 1
  local line = redis.call('EXISTS', Key.line .. queue, Key.suspects .. queue) > 0
  if inbox or line and redis.call('SISMEMBER', Key.paused, queue) == 0 then redis.call('ZADD', Key.ready, 0, queue) end
  if redis.call('EXISTS', Key.scheduled .. queue, Key.expiring .. queue, Key.held .. queue, Key.parked .. queue) > 0 then
    QueueIndex.refresh_time(queue)
  end
end
