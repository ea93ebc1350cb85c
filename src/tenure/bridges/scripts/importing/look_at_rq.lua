-- The fields of a job of RQ, and the number of jobs that wait for it, as `take_rq` has them. Changes nothing.
-- ARGV: id, fields
-- include: importing
local job, fields = 'rq:job:' .. ARGV[1], {}
for index = 2, #ARGV do fields[index - 1] = ARGV[index] end
local texts = redis.call('HMGET', job, unpack(fields))
texts[#fields + 1] = tostring(redis.call('SCARD', job .. ':dependents'))
return importing.joined(texts, #fields + 1)
