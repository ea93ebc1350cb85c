-- mark: remember this moment under a label. Only the latest marks are kept.
-- ARGV: time, label, number of marks to keep.
-- include: script, write_when_full

local label, most = Script.arg(), tonumber(Script.arg())
local number = redis.call('RPUSH', Key.marks, '\146' .. cmsgpack.pack(Script.now, label))
if number > most then redis.call('LPOP', Key.marks, number - most) end
