-- Closes the edges of many plain successes together. A plain success changes no more than the job's record and its index.

local EdgeBatch = lazy(function(EdgeBatch)

function EdgeBatch.begin()
  return { edges = {}, names = {}, open = {} }
end

-- Close the open edges to a job that succeeded with `result`. Dependents join the line in the same order as if each edge
-- were closed on its own.
function EdgeBatch.close(batch, ref, result)
  local first = Edges.prefix_to(ref)
  local value = result and 'R' .. result or 'N'
  local names = redis.call('ZRANGEBYLEX', Key.dependents, '[' .. first, '(' .. first .. '\255\255\255\255\255\255')
  for i = 1, #names do
    local name, edges = names[i], batch.edges
    local dependent = string.sub(name, #first + 11)
    -- A name in `dependents` ends like the field in `edges`: position and dependent.
    edges[#edges + 1] = string.sub(name, #first + 7)
    edges[#edges + 1] = value
    batch.names[#batch.names + 1] = name
    local open = (batch.open[dependent] or tonumber(redis.call('HGET', Key.edges, Edges.open_field(dependent)) or 0)) - 1
    batch.open[dependent] = open
    if open == 0 then
      local job = Jobs.load(dependent)
      if job and job.state == is.blocked then
        Jobs.enter_line(job, job.run_at)
        Script.add_consequence('unblocked', job)
      end
    end
  end
end

-- Write the edges that were closed.
function EdgeBatch.flush(batch)
  for dependent, open in pairs(batch.open) do
    batch.edges[#batch.edges + 1] = Edges.open_field(dependent)
    batch.edges[#batch.edges + 1] = open
  end
  Script.call_in_chunks('HSET', Key.edges, batch.edges)
  Script.call_in_chunks('ZREM', Key.dependents, batch.names)
  batch.edges, batch.names, batch.open = {}, {}, {}
end

end)
