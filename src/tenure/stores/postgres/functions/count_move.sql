-- count_move: a job of this queue went from one place to another.
CREATE OR REPLACE FUNCTION count_move(_queue text, _origin text, _target text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tallies (queue, what, number) VALUES (_queue, _origin, -1), (_queue, _target, 1);
END
$$;
