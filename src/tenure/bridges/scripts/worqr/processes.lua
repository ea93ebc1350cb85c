-- Names of Worqr's keys. A process is one task in progress; its id here is that of the job. A worker has a set of its
-- processes for each queue, as Worqr's text says; its client has one for each queue, so peers that fail a worker do not see ours.
local processes = {}

function processes.id(queue, id) return queue .. '_' .. id end

function processes.key(prefix, queue, id) return prefix .. ':processes:' .. processes.id(queue, id) end

function processes.set(prefix, owner, queue) return prefix .. ':workingProcesses:' .. owner .. '_' .. queue end
