-- Filters of a search that look into a job: its worker, its error, a text that it contains.
-- `records.py` describes the stored formats. A worker's error is the JSON of type and message, then traceback and output if
-- there are any. Quotes within a text are escaped, so that `,"` in such a JSON is never a part of a text.

local Filtering = lazy(function(Filtering)

local find, sub, byte = string.find, string.sub, string.byte

-- Where the payload of a stored job begins and ends.
function Filtering.payload_of(stored)
  local head = cmsgpack.unpack_limit(stored, 5, 10) + 1  -- of the payload: 196, 197 or 198, then 1, 2 or 4 bytes of length
  return head + 1 + 2 ^ (byte(stored, head) - 196), #stored - 9
end

-- Where the JSON of type and message ends, without the brace that closes it.
function Filtering.brief_end(error)
  local behind = find(error, ',"traceback":', 1, true) or find(error, ',"output":', 1, true) or #error
  return behind - 1
end

-- Whether a stored job has the text in its payload. Looks for it anywhere first, which takes less than parsing.
local function payload_contains(stored, text)
  if not find(stored, text, 1, true) then return false end
  local first, last = Filtering.payload_of(stored)
  local _, ends = find(stored, text, first, true)
  return ends and ends <= last
end

-- Whether a text in JSON has the wanted one. Parses it only if it has the JSON of the wanted one and escapes, because such
-- a place may begin within an escape: in \\n for n.
local function json_contains(json, wanted)
  if not find(json, wanted.text_json, 1, true) then return false end
  if not find(json, '\\', 1, true) then return true end
  return find(cjson.decode('[' .. json .. ']')[1], wanted.text, 1, true)
end

-- Type and message of an error that a script has written; nil if a worker has.
local function recorded_error(error, templates)
  if byte(error) == 123 then return end
  local word, first, rest = string.match(error, '^(%S+) ?(%S*) ?(.*)$')
  local kind, short, whole = unpack(templates[word])
  local message = rest == '' and short or whole
  return kind, (string.gsub(message, '[\1\2]', { ['\1'] = first, ['\2'] = rest }))
end

local function error_contains(error, wanted)
  local kind, message = recorded_error(error, wanted.templates)
  if kind then return find(kind, wanted.text, 1, true) or find(message, wanted.text, 1, true) end
  local last = Filtering.brief_end(error)
  local ends, message_at = find(error, ',"message":', 1, true)
  return json_contains(sub(error, 9, ends - 1), wanted) or json_contains(sub(error, message_at + 1, last), wanted)
end

local function has_type(error, wanted)
  local kind = recorded_error(error, wanted.templates)
  if kind then return kind == wanted.error end
  return sub(error, 9, 9 + #wanted.error_json) == wanted.error_json .. ','
end

-- Whether a job passes the filter `wanted`, which `reading.py` has encoded.
function Filtering.passes(stored, record, wanted)
  local worker, error
  if record then
    if (wanted.error or wanted.text) and bit.band(byte(record, 3), flag.detailed) ~= 0 then
      local _
      _, _, _, _, worker, _, _, _, _, _, error = cmsgpack.unpack_limit(record, 10, 25)
    elseif wanted.worker then
      worker = select(5, cmsgpack.unpack_limit(record, 4, 25))
    end
  end
  if wanted.worker and worker ~= wanted.worker then return false end
  if wanted.error and not (error and has_type(error, wanted)) then return false end
  return not wanted.text or payload_contains(stored, wanted.text) or error and error_contains(error, wanted)
end

-- The first `most` characters of a text, or some more: of 4 bytes each.
local function cut(text, most)
  local last = 4 * most
  while last > 0 and last < #text and bit.band(byte(text, last + 1), 192) == 128 do last = last - 1 end
  return sub(text, 1, last)
end

-- Leave out of a description as `Reading.describe` gives it most of what `shortened` of `tenure.core.job` leaves out, so that
-- it does not travel.
function Filtering.shorten(described, most)
  local ref, stored, record = unpack(described, 1, 3)
  local first, last = Filtering.payload_of(stored)
  if last - first + 1 > most then
    local head = cmsgpack.unpack_limit(stored, 5, 10)
    described[2] = sub(stored, 1, head) .. '\198' .. struct.pack('>I4', most) .. sub(stored, first, first + most - 1) .. sub(stored, -9)
  end
  if record and #record > 4 * most then
    local job = Script.loaded[ref]
    if job.result and Jobs.final(job.state) then job.result = cut(job.result, most) end
    if job.error and byte(job.error) == 123 then job.error = sub(job.error, 1, Filtering.brief_end(job.error)) .. '}' end
    described[3] = Jobs.pack(job)
  end
  return described
end

end)
