-- settle_inside: Do what `settle` does for one lease, inside a caller's transaction. Returns its verdict, NULL if it is
-- ok; or `elsewhere` if this is another database. A lease that was settled before counts as lost, because what else
-- this transaction has written would be written twice.
--
-- `_errand`: the call as JSON, written by caller_work.py.
CREATE OR REPLACE FUNCTION settle_inside(_errand text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _call record;
BEGIN
    SELECT * INTO _call FROM json_to_record(_errand::json) AS each (
        identity uuid, now float8, n bigint, id text, fence integer, nonce bigint, state text, result text, error text, step json,
        payloads text[]
    );
    IF NOT is_this_schema(_call.identity) THEN
        RETURN 'elsewhere';
    END IF;
    PERFORM FROM live
    WHERE n = _call.n AND state = 'running' AND fence = _call.fence AND nonce = _call.nonce
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT FROM jobs WHERE id = _call.id) THEN 'lease_lost' ELSE 'not_found' END;
    END IF;
    PERFORM defer_wakeups();
    RETURN (
        settle(
            _call.now, ARRAY[_call.n], ARRAY[_call.id], ARRAY[_call.fence], ARRAY[_call.nonce], ARRAY[_call.state],
            ARRAY[_call.result], ARRAY[_call.error], ARRAY[_call.step], decode_payloads(_call.payloads)
        )
    )[1];
END
$$;
