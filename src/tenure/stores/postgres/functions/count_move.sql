-- count_move: Count that a job of `_queue` moved from the counter `_origin` to the counter `_target`.
CREATE OR REPLACE FUNCTION count_move(_queue text, _origin text, _target text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tallies (queue, what, number) VALUES (_queue, _origin, -1), (_queue, _target, 1);
END
$$;
