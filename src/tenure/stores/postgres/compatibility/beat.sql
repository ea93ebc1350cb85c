-- beat: `beat_worker` for programs of layout 11 and before, which know no orders. Returns false if it is not registered.
CREATE OR REPLACE FUNCTION beat(_now float8, _id text, _pulse text) RETURNS boolean LANGUAGE sql AS $$
    SELECT beat_worker(_now, _id, _pulse) IS NOT NULL
$$;
