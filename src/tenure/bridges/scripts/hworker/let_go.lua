-- Drop the custody of jobs that a monitor has taken back.
-- ARGV: prefix, ids
-- include: custody
for index = 2, #ARGV do
    redis.call('HDEL', ARGV[1] .. ':tenure:holds', ARGV[index])
    custody.drop(ARGV[index])
end
