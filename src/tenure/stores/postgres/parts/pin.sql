-- pin: keep these jobs from being removed, from ending and from being revived until this transaction ends; those of them that
-- exist come back. They may still be leased, renewed, released.
CREATE OR REPLACE FUNCTION pin(_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[];
BEGIN
    LOOP
        _ns := ARRAY(SELECT n FROM live WHERE n = ANY (ARRAY(SELECT n FROM jobs WHERE id = ANY (_ids))) ORDER BY n FOR KEY SHARE);
        _ns := _ns || ARRAY(
            SELECT n FROM ended WHERE n = ANY (ARRAY(SELECT n FROM jobs WHERE id = ANY (_ids))) ORDER BY n FOR KEY SHARE
        );
        -- One may have gone from the one table to the other, or altogether, between the two looks.
        EXIT WHEN NOT EXISTS (SELECT FROM jobs WHERE id = ANY (_ids) AND NOT n = ANY (_ns));
    END LOOP;
    RETURN ARRAY(SELECT id FROM jobs WHERE n = ANY (_ns));
END
$$;
