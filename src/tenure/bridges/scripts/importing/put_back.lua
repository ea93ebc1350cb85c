-- Return entries to the front of where they were, the first of them foremost. Returns how many were in custody.
-- ARGV: ids
-- include: importing
local returned = 0
for index = #ARGV, 1, -1 do
    local facts, entry = importing.get(ARGV[index])
    if facts then
        importing.run(facts.undo, entry)
        importing.forget(ARGV[index])
        returned = returned + 1
    end
end
return returned
