-- A write that the server allows even when its memory is full. Redis then allows the writes that follow in this script too.
redis.call('HDEL', Key.meta, 'nothing')
