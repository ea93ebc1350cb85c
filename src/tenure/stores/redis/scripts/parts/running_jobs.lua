-- Searches all running jobs. There is no index by worker or nonce, because every lease would pay for it; and there are no
-- more running jobs than workers have slots.

local RunningJobs = {}

-- Up to `wanted` refs of running jobs whose record has `value` in the field of this number.
function RunningJobs.with_field(field, value, wanted)
  local found = {}
  for _, queue in ipairs(redis.call('SMEMBERS', Key.queues)) do
    local first = 0
    while #found < wanted do
      local members, refs = redis.call('ZRANGE', Key.held .. queue, first, first + Script.CHUNK - 1), {}
      for i = 1, #members do refs[i] = string.sub(members[i], 7) end
      for i, record in ipairs(Script.fields_of(Key.records, refs)) do
        local runs = record and string.byte(record, 2) == is.running and #found < wanted
        if runs and select(field + 1, cmsgpack.unpack_limit(record, field, 1)) == value then found[#found + 1] = refs[i] end
      end
      if #members < Script.CHUNK then break end
      first = first + Script.CHUNK
    end
  end
  return found
end
