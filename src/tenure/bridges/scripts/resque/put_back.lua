-- Return what was put aside to the front of these queues.
-- ARGV: prefix, queues
-- include: arrived
for index = 2, #ARGV do put_back(ARGV[1], ARGV[index]) end
