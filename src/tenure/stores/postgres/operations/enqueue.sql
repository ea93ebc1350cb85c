-- enqueue: Enqueue one call of a task, as part of the transaction that this is called in. Returns the id of the job, or
-- of the job that owns the unique key. For programs in any language, and for triggers:
--
--     SELECT tenure.enqueue(task => 'send_receipt', args => '[42]', queue => 'mail', delay => 60);
--
-- The parameters are the fields of an inbox entry and mean the same (tenure/core/inbox.py). Durations are seconds; NULL
-- means not given; max_attempts 0 means no limit. A bad name or option raises invalid_parameter_value. Arguments that
-- the task does not take make a job that fails or is broken, because only a worker knows the task.
CREATE OR REPLACE FUNCTION enqueue(
    task text,
    args jsonb DEFAULT NULL,
    kwargs jsonb DEFAULT NULL,
    queue text DEFAULT NULL,
    id text DEFAULT NULL,
    priority integer DEFAULT NULL,
    delay float8 DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    expires float8 DEFAULT NULL,
    unique_key text DEFAULT NULL,
    unique_window float8 DEFAULT NULL,
    tags text[] DEFAULT NULL,
    keep float8 DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    headers jsonb DEFAULT NULL,
    version integer DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    _payload bytea;
    _due_at float8 := extract(epoch FROM run_at);
    _tag text;
    _answer text;
BEGIN
    task := check_name('task', task);
    queue := check_name('queue', coalesce(queue, 'default'));
    id := check_name('id', coalesce(id, new_id()));
    FOREACH _tag IN ARRAY coalesce(tags, '{}') LOOP
        _tag := check_name('tag', _tag);
    END LOOP;
    delay := check_seconds('delay', delay);
    expires := check_seconds('expires', expires);
    unique_window := check_seconds('unique_window', unique_window);
    keep := check_seconds('keep', keep);
    run_at := check_value(run_at, isfinite(run_at), 'run_at', 'an instant');
    unique_key := check_value(unique_key, length(unique_key) BETWEEN 1 AND 500, 'unique_key', 'a text of 1 to 500 characters');
    max_attempts := check_value(max_attempts, max_attempts >= 0, 'max_attempts', 'an integer from 1 on, or 0 for no limit');
    args := check_value(args, jsonb_typeof(args) = 'array', 'args', 'a JSON array');
    kwargs := check_value(kwargs, jsonb_typeof(kwargs) = 'object', 'kwargs', 'a JSON object');
    headers := check_headers(headers);
    version := check_value(version, version >= 1, 'version', 'an integer from 1 on');
    IF delay IS NOT NULL AND run_at IS NOT NULL THEN
        RAISE EXCEPTION 'a job has either a delay or a run_at, not both' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    _payload := convert_to(
        '{' || concat_ws(
            ',', '"v":' || nullif(version, 1), '"args":' || nullif(args, '[]')::text, '"kwargs":' || nullif(kwargs, '{}')::text
        ) || '}',
        'UTF8'
    );
    PERFORM defer_wakeups();
    IF unique_key IS NULL THEN
        PERFORM enqueue_plain(
            NULL, id, task, queue, _payload, false, priority, delay, _due_at, expires, max_attempts, NULL, NULL, keep, tags, NULL,
            headers::text
        );
        RETURN id;
    END IF;
    SELECT answer.id INTO _answer FROM enqueue_jobs(
        NULL,
        json_build_array(json_build_object(
            'id', id, 'task', task, 'queue', queue, 'priority', priority, 'delay', delay, 'run_at', _due_at, 'expires', expires,
            'key', unique_key, 'key_for', unique_window, 'tags', tags, 'keep', keep, 'max_attempts', max_attempts,
            'headers', headers
        )),
        ARRAY[_payload], true
    ) AS answer;
    RETURN _answer;
END
$$;
