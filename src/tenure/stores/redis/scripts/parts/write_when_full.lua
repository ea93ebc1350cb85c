-- A write that a full memory does not refuse: then those that follow in this step are not refused either.
redis.call('HDEL', Key.meta, 'nothing')
