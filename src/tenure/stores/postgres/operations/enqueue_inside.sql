-- enqueue_inside: Do what `enqueue_jobs` does, inside a caller's transaction. Returns its answers as JSON, NULL if
-- there are none; a JSON object with the refusal, because an error would abort the caller's transaction; or `elsewhere`
-- if this is another database.
--
-- `_errand`: the call as JSON, written by caller_work.py.
CREATE OR REPLACE FUNCTION enqueue_inside(_errand text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _call record;
    _payloads bytea[];
    _new record;
    _refusal text;
BEGIN
    SELECT * INTO _call FROM json_to_record(_errand::json)
        AS each (identity uuid, now float8, jobs json, payloads text[], special boolean, starts boolean);
    IF NOT is_this_schema(_call.identity) THEN
        RETURN 'elsewhere';
    END IF;
    PERFORM defer_wakeups();
    _payloads := decode_payloads(_call.payloads);
    IF _call.special THEN
        -- Only for these, because the block is a subtransaction, and thousands in one transaction are slow.
        BEGIN
            RETURN json_agg(json_build_array(at, id, state, duplicate)) FROM enqueue_jobs(_call.now, _call.jobs, _payloads, true);
        EXCEPTION WHEN SQLSTATE 'TN001' OR SQLSTATE 'TN002' THEN
            GET STACKED DIAGNOSTICS _refusal = PG_EXCEPTION_DETAIL;
            RETURN json_build_object('refused', _refusal::json);
        END;
    END IF;
    IF cardinality(_payloads) = 1 AND _call.starts IS NOT TRUE THEN
        SELECT * INTO _new FROM new_jobs(_call.jobs, _payloads);
        IF enqueue_plain(
            _call.now, _new.id, _new.task, _new.queue, _new.payload, _new.raw, _new.priority, _new.delay, _new.run_at, _new.expires,
            _new.max_attempts, _new.max_losses, _new.lease, _new.keep, _new.tags, _new.run_id, _new.headers
        ) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN json_agg(json_build_array(at, id, state, duplicate)) FROM enqueue_jobs(_call.now, _call.jobs, _payloads, false);
END
$$;
