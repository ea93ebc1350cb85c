-- error_head: The JSON of an error up to its traceback and output, which are its last fields; without the closing brace, if it
-- has one of them. They are found without parsing: inside a string a quote follows a backslash, so a quote after a comma
-- begins a name.
CREATE OR REPLACE FUNCTION error_head(_error text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(split_part(_error, ',"traceback":', 1), ',"output":', 1)
$$;
