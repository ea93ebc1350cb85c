-- Write a new time for jobs that are still held. Returns the ids of those that are in custody, but were taken back.
-- ARGV: prefix, time, ids
-- include: custody, progress
local prefix, time, lost = ARGV[1], ARGV[2], {}
for index = 3, #ARGV do
    local id = ARGV[index]
    local header, entry = custody.get(id)
    if header then
        if progress.held(prefix, header[2], id, entry) then
            progress.hold(prefix, header[2], id, entry, time)
        else
            lost[#lost + 1] = id
        end
    end
end
return lost
