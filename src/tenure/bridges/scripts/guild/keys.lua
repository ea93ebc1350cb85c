-- Keys of Guild queues, and its locks. The lock of an entry that a bridge has taken holds a token made from the id of our job,
-- so that any bridge that adopts the entry has it too.
local FLOW = ARGV[1]

local function list_of(queue, what)
    return 'queue:' .. queue .. ':' .. what
end

local function lock_of(queue, entry)
    return 'lock:' .. queue .. ':' .. entry
end

-- The hash with the attributes of a job. A child queue, whose name is PARENT:CHILD, has hashes under its own name.
local function hash_of(queue, entry)
    local child = string.find(queue, ':', 1, true)
    return 'job:' .. (child and queue or FLOW) .. ':' .. entry
end

local function token_of(id)
    return 'tenure:' .. id
end

-- Give up a lock that is ours. It stays for two seconds under another value: the monitor first lists `processing` and then asks for
-- the lock of each job, and would fail a job that has left `processing` in between.
local function unlock(queue, entry)
    redis.call('SET', lock_of(queue, entry), 'tenure:ended', 'EX', 2)
end
