-- report_changes: tell the caller what has become of these jobs, which it did not name. By messages to the client, which come with the answer,
-- so that no step need answer for what rarely happens; nothing of it leaves a transaction of the caller's own.
--
-- A message is sent at once, even if what it tells is undone afterwards, by an error that is caught: whoever catches one says so
-- with `retract_reports`.
CREATE OR REPLACE FUNCTION report_changes(_changes text[], _ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(cardinality(_ns), 0) = 0 THEN
        RETURN;
    END IF;
    PERFORM report_json(json_agg(json_build_array(each.change, j.id, j.task, j.queue) ORDER BY each.at))
    FROM unnest(_changes, _ns) WITH ORDINALITY AS each (change, n, at) JOIN jobs j ON j.n = ANY (ARRAY[each.n]);
END
$$;
