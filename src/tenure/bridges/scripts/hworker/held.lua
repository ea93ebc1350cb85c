-- Whether each job is in custody and no monitor has taken it back: 1 or 0.
-- ARGV: prefix, ids
-- include: custody, progress
local held = {}
for index = 2, #ARGV do
    local header, entry = custody.get(ARGV[index])
    held[#held + 1] = header and progress.held(ARGV[1], header[2], ARGV[index], entry) and 1 or 0
end
return held
