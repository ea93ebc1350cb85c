-- Layout 13: `enqueue` takes the version of the task that the arguments are for. Nothing that programs of the layout
-- before call has changed.

-- It has one more parameter.
DROP FUNCTION IF EXISTS enqueue(
    text, jsonb, jsonb, text, text, integer, float8, timestamptz, float8, text, float8, text[], float8, integer, jsonb
);
