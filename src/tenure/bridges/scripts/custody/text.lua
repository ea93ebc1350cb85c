-- A text as JSON, with the escapes that JavaScript would write.
local function quoted(text)
    return (string.gsub(cjson.encode(text), '\\/', '/'))
end
