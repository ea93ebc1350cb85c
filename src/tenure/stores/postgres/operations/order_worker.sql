-- order_worker: Give a worker an order, which its beats return. Returns false if it is not registered.
CREATE OR REPLACE FUNCTION order_worker(_id text, _order text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workers SET current_order = _order WHERE id = _id;
    RETURN FOUND;
END
$$;
