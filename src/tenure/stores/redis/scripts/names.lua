-- names: the names of all queues, for somebody who serves patterns and waits for `arrivals` of others from now on.
-- include: step, draining

-- What is left there was for those who had looked before: it would only make this one look again.
redis.call('DEL', Key.arrivals)
return redis.call('SMEMBERS', Key.queues)
