-- The index of queues that have something to do: `ready` now, `timed` at some time. Steps add to it as they change a queue; what
-- is there too soon, or no longer, is found here.

local Indexing = {
  soon = {}, overdue = {},
  stayed = 0,  -- of those that were looked at: how many are due soon and not yet, and so stand first in `timed` still
}

local AHEAD = 1  -- seconds before its time that a queue is named, so that its workers lease when that comes, and not a look later
local AGAIN = 60  -- seconds until a queue is looked at again whose due jobs no worker takes

-- Enter a queue in `timed` anew, by what is stored of it; name it if something is to be done soon, or is overdue.
function Indexing.look(queue)
  local function first(family)
    local score = redis.call('ZRANGE', family .. queue, 0, 0, 'WITHSCORES')[2]
    return score and tonumber(score) / 1000000 or math.huge
  end
  local ends, due = math.min(first(Key.held), first(Key.parked)), math.min(first(Key.scheduled), first(Key.expiring))
  if due < math.huge and redis.call('SISMEMBER', Key.paused, queue) == 1 then due = math.huge end
  local at = math.min(ends, due)
  if at == math.huge then return redis.call('ZREM', Key.timed, queue) end
  if at <= Step.now + AHEAD then Indexing.soon[#Indexing.soon + 1] = queue end
  if at <= Step.now + AHEAD and at > Step.now then Indexing.stayed = Indexing.stayed + 1 end
  if ends <= Step.now then Indexing.overdue[#Indexing.overdue + 1] = queue end
  if due <= Step.now then
    redis.call('ZADD', Key.ready, 0, queue)
    at = math.min(math.max(ends, Step.now + AHEAD), Step.now + AGAIN)
  end
  redis.call('ZADD', Key.timed, Step.score_of(math.max(at, ends <= Step.now and Step.now + AHEAD or 0)), queue)
end

-- Enter a queue in both by what is stored of it, whichever step has changed it.
function Indexing.check(queue)
  local inbox = redis.call('EXISTS', Key.inbox .. queue) == 1
  local line = redis.call('EXISTS', Key.line .. queue, Key.suspects .. queue) > 0
  if inbox or line and redis.call('SISMEMBER', Key.paused, queue) == 0 then redis.call('ZADD', Key.ready, 0, queue) end
  if redis.call('EXISTS', Key.scheduled .. queue, Key.expiring .. queue, Key.held .. queue, Key.parked .. queue) > 0 then
    Indexing.look(queue)
  end
end
