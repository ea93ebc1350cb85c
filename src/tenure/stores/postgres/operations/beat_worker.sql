-- beat_worker: Record that a worker lives, and its state as JSON. Returns its order, or NULL if it is not registered. The
-- commit does not wait for the disk.
CREATE OR REPLACE FUNCTION beat_worker(_now float8, _id text, _pulse text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _order text;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE workers SET pulse = _pulse, beat = clock(_now) WHERE id = _id RETURNING current_order INTO _order;
    RETURN _order;
END
$$;
