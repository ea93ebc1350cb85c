-- stop_waiting: Remove a caller from `idle`; all callers of the channel if `_caller` is NULL.
CREATE OR REPLACE FUNCTION stop_waiting(_channel text, _caller integer DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM idle WHERE channel = _channel AND (_caller IS NULL OR caller = _caller);
END
$$;
