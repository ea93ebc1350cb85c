-- Return entries to the front of their queues, the first of them foremost. What came later and was put aside goes behind them.
-- ARGV: prefix, ids
-- include: custody, arrived
for index = #ARGV, 2, -1 do
    local header, entry = custody.get(ARGV[index])
    if header then
        put_back(ARGV[1], header[2])
        redis.call('SADD', ARGV[1] .. ':queues', header[2])
        redis.call('LPUSH', ARGV[1] .. ':queue:' .. header[2], entry)
        custody.drop(ARGV[index])
    end
end
