-- Register a worker as permanent, so that no peer counts it as dead, and note which worker of ours it is.
-- ARGV: prefix, owner
redis.call('SADD', ARGV[1] .. ':workers', ARGV[2])
redis.call('SADD', ARGV[1] .. ':permanentWorkers', ARGV[2])
redis.call('HSET', ARGV[1] .. ':tenure:workers', ARGV[2], ARGV[2])
