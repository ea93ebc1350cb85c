-- Remove the records of a worker. What it holds stays in custody.
-- ARGV: prefix, owner
redis.call('SREM', ARGV[1] .. ':workers', ARGV[2])
redis.call('SREM', ARGV[1] .. ':permanentWorkers', ARGV[2])
redis.call('HDEL', ARGV[1] .. ':tenure:workers', ARGV[2])
