-- The edges of many jobs being closed together, whose blockers have succeeded and have nothing else about them.

local Closing = later(function(Closing)

-- Of nothing so far.
function Closing.begin()
  return { edges = {}, names = {}, open = {} }
end

-- Close the open edges to a job that has given this. Dependents come in line as if each edge were closed by itself.
function Closing.close(closing, ref, result)
  local first = Edges.to(ref)
  local given = result and 'R' .. result or 'N'
  local names = redis.call('ZRANGEBYLEX', Key.dependents, '[' .. first, '(' .. first .. '\255\255\255\255\255\255')
  for i = 1, #names do
    local name, edges = names[i], closing.edges
    local dependent = string.sub(name, #first + 11)
    -- The name ends as the field does: with the position and the dependent.
    edges[#edges + 1] = string.sub(name, #first + 7)
    edges[#edges + 1] = given
    closing.names[#closing.names + 1] = name
    local open = (closing.open[dependent] or tonumber(redis.call('HGET', Key.edges, Edges.open_field(dependent)) or 0)) - 1
    closing.open[dependent] = open
    if open == 0 then
      local job = Jobs.load(dependent)
      if job and job.state == is.blocked then
        Jobs.join(job, job.run_at)
        Step.tell('unblocked', job)
      end
    end
  end
end

-- Write all that was closed.
function Closing.go(closing)
  for dependent, open in pairs(closing.open) do
    closing.edges[#closing.edges + 1] = Edges.open_field(dependent)
    closing.edges[#closing.edges + 1] = open
  end
  Step.each_chunk('HSET', Key.edges, closing.edges)
  Step.each_chunk('ZREM', Key.dependents, closing.names)
  closing.edges, closing.names, closing.open = {}, {}, {}
end

end)
