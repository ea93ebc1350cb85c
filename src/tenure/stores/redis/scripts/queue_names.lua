-- queue_names: one page of the names of all queues, in no order. Reads only. A name may come twice.
-- ARGV: time, scan cursor ('0' at first).
-- Returns: next cursor ('0' at the end), names.
-- include: script

return redis.call('SSCAN', Key.queues, Script.arg(), 'COUNT', 1000)
