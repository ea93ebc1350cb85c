-- claim_keys: Claim the unique keys of all jobs of a call. Returns a JSON object from the position of a job in the call
-- to the id of the job that owns its key, for keys that were not free. Raises TN001 for a job with `key_raises`.
--
-- Claims in the order of the keys, so that two calls never wait for each other. If an id occurs twice in the call, it
-- claims in the order of the call instead, because the first that is stored counts.
CREATE OR REPLACE FUNCTION claim_keys(_now float8, _jobs json, _payloads bytea[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    _holders jsonb := '{}';
    _coming text[] := '{}';
    _distinct boolean;
    _new record;
    _holder text;
BEGIN
    SELECT count(*) = count(DISTINCT id) INTO _distinct FROM new_jobs(_jobs, _payloads);
    FOR _new IN
        SELECT * FROM new_jobs(_jobs, _payloads) AS new
        WHERE (key IS NOT NULL OR NOT _distinct) AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = new.id)
        ORDER BY CASE WHEN _distinct THEN task END COLLATE "C", CASE WHEN _distinct THEN key END COLLATE "C", at
    LOOP
        CONTINUE WHEN _new.id = ANY (_coming);
        IF _new.key IS NOT NULL THEN
            _holder := claim_key(_now, _new.task, _new.key, _new.id, _now + _new.key_for);
            IF _holder IS NOT NULL AND _new.key_raises THEN
                RAISE EXCEPTION 'held' USING
                    ERRCODE = 'TN001', DETAIL = json_build_array(_new.task, _new.key, _holder);
            ELSIF _holder IS NOT NULL THEN
                _holders := _holders || jsonb_build_object(_new.at::text, _holder);
                CONTINUE;
            END IF;
        END IF;
        IF NOT _distinct THEN
            _coming := _coming || _new.id;
        END IF;
    END LOOP;
    RETURN _holders;
END
$$;
