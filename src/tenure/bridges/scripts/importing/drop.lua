-- Drop the custody of entries that are jobs now, with what they have left behind. Returns how many were in custody.
-- ARGV: ids
-- include: importing
local dropped = 0
for _, id in ipairs(ARGV) do
    local facts, entry = importing.get(id)
    if facts then
        importing.run(facts.finish, entry)
        importing.forget(id)
        dropped = dropped + 1
    end
end
return dropped
