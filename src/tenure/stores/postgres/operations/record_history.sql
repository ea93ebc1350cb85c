-- record_history: Add to the rows of the current slot of each resolution, and delete up to 1,000 rows of slots that are no
-- longer kept. Once a slot has `_rows` rows, further pairs of queue and task are added to one row, without gauges. The
-- commit does not wait for the disk.
--
-- Race: workers that add at the same time. They do it one after the other, by a lock for the whole call: all of them write
-- the row of all queues anyway. So rows need no order, and a slot never has too many.
--
-- `_writes`: a JSON array of queue, task, counts and gauges. `_resolutions` and `_kept_for`: seconds of a slot, and for how
-- many seconds such slots are kept; 0 and Infinity: the one slot since ever. `_errors`: see `merge_counts`.
CREATE OR REPLACE FUNCTION record_history(
    _now float8, _writes json, _resolutions integer[], _kept_for float8[], _rows integer, _errors integer
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _resolution integer;
    _slot float8;
    _number integer;
    _write record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtext('tenure measures'), 'measures'::regclass::oid::integer);
    _now := clock(_now);
    FOR _at IN 1 .. cardinality(_resolutions) LOOP
        _resolution := _resolutions[_at];
        _slot := CASE WHEN _resolution > 0 THEN floor(_now / _resolution) * _resolution ELSE 0 END;
        SELECT count(*) INTO _number FROM measures WHERE resolution = _resolution AND slot = _slot;
        FOR _write IN SELECT * FROM json_to_recordset(_writes) AS each (queue text, task text, counts jsonb, gauges jsonb) LOOP
            UPDATE measures SET counts = merge_counts(counts, _write.counts, _errors), gauges = merge_gauges(gauges, _write.gauges)
            WHERE resolution = _resolution AND slot = _slot AND queue = _write.queue AND task = _write.task;
            CONTINUE WHEN FOUND;
            IF _number >= _rows THEN
                _write.queue := chr(8230);  -- an ellipsis
                _write.task := _write.queue;
                _write.gauges := '{}';
            END IF;
            INSERT INTO measures AS m (resolution, slot, queue, task, counts, gauges)
            VALUES (_resolution, _slot, _write.queue, _write.task, merge_counts('{}', _write.counts, _errors), _write.gauges)
            ON CONFLICT (resolution, slot, queue, task) DO UPDATE SET counts = merge_counts(m.counts, _write.counts, _errors);
            _number := _number + 1;
        END LOOP;
        DELETE FROM measures WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM measures WHERE resolution = _resolution AND slot <= _now - _kept_for[_at] ORDER BY slot LIMIT 1000
        ));
    END LOOP;
END
$$;
