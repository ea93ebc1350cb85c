-- Change the owner of an entry, if it still has the old one. Returns 1 if it did.
-- ARGV: id, old owner, new owner
-- include: custody
local header, entry = custody.get(ARGV[1])
if not header or header[1] ~= ARGV[2] then return 0 end
header[1] = ARGV[3]
custody.put(ARGV[1], header, entry)
return 1
