-- add_mark: Remember this moment under a label, which is JSON, and delete all marks but the latest `_kept`.
CREATE OR REPLACE FUNCTION add_mark(_now float8, _label text, _kept integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO marks (at, label) VALUES (clock(_now), _label);
    DELETE FROM marks WHERE n <= (SELECT n FROM marks ORDER BY n DESC OFFSET _kept LIMIT 1);
END
$$;
