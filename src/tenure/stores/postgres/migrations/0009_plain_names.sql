-- Layout 9: functions only. Internal functions and some operations have plain names. Programs of the layouts before go on
-- working: these operations keep their old names too (compatibility/), and PostgreSQL looks a function up when it is
-- called, so operations call the new internal functions as soon as this transaction, which replaces them, commits. A call
-- that is under way at that moment may find an old function gone: it fails, having done nothing, as StoreUnavailable.

-- Internal functions under their old names.
DROP FUNCTION IF EXISTS await_children(float8, live, json, bytea[], text[]);
DROP FUNCTION IF EXISTS blockers(json, bytea[], jsonb);
DROP FUNCTION IF EXISTS brief(text);
DROP FUNCTION IF EXISTS by_position(integer[], bigint[], integer);
DROP FUNCTION IF EXISTS bytes_of(text[]);
DROP FUNCTION IF EXISTS checked_name(text, text);
DROP FUNCTION IF EXISTS checked_seconds(text, float8);
DROP FUNCTION IF EXISTS conclude(float8, bigint, text, text, text, text, boolean, text);
DROP FUNCTION IF EXISTS defer();
DROP FUNCTION IF EXISTS drop_unkept(float8, bigint[]);
DROP FUNCTION IF EXISTS end_from_outside(float8, text[], text, text, text);
DROP FUNCTION IF EXISTS end_with(float8, live, text, text, text, boolean, json, bytea[]);
DROP FUNCTION IF EXISTS ending(bigint);
DROP FUNCTION IF EXISTS failure(text, text, text);
DROP FUNCTION IF EXISTS finish(float8, bigint, text, text, text, text);
DROP FUNCTION IF EXISTS fold();
DROP FUNCTION IF EXISTS follow(float8, text[], text, text, text, bigint);
DROP FUNCTION IF EXISTS follow_end(float8, bigint);
DROP FUNCTION IF EXISTS hand_over(float8, bigint[], boolean[], json);
DROP FUNCTION IF EXISTS happened(text, text, text);
DROP FUNCTION IF EXISTS is_here(uuid);
DROP FUNCTION IF EXISTS lock_whole(text[]);
DROP FUNCTION IF EXISTS lose(float8, bigint, text);
DROP FUNCTION IF EXISTS meant(text[]);
DROP FUNCTION IF EXISTS moved(text, text, text);
DROP FUNCTION IF EXISTS note(text[], bigint[]);
DROP FUNCTION IF EXISTS note_all(json);
DROP FUNCTION IF EXISTS note_front(float8, text, bigint);
DROP FUNCTION IF EXISTS noted();
DROP FUNCTION IF EXISTS over_with(bigint, bigint, text);
DROP FUNCTION IF EXISTS pin(text[]);
DROP FUNCTION IF EXISTS place(text, float8);
DROP FUNCTION IF EXISTS promote(float8, text);
DROP FUNCTION IF EXISTS prune_pair(float8, text, text, text, bigint, float8, float8, integer);
DROP FUNCTION IF EXISTS quiet_queues(text, text);
DROP FUNCTION IF EXISTS remembered(text[], integer, integer, float8, float8, text, text, text);
DROP FUNCTION IF EXISTS remove(bigint[]);
DROP FUNCTION IF EXISTS remove_and_tell(float8, bigint[]);
DROP FUNCTION IF EXISTS revive(float8, text);
DROP FUNCTION IF EXISTS runs_found(bigint[]);
DROP FUNCTION IF EXISTS settle_rest(float8, bigint[], text[], integer[], bigint[], text[], text[], text[], json[], bytea[], text[], integer[], text[], bigint[], integer[], integer[], bigint[], boolean[], json, bigint[]);
DROP FUNCTION IF EXISTS shorten(float8, text, integer);
DROP FUNCTION IF EXISTS tell_holder(bigint, text, text);
DROP FUNCTION IF EXISTS tell_waiters(bigint[], text);
DROP FUNCTION IF EXISTS tie(float8, bigint, jsonb);
DROP FUNCTION IF EXISTS unnote();
DROP FUNCTION IF EXISTS valid(anyelement, boolean, text, text);
DROP FUNCTION IF EXISTS wake(text, bigint);
DROP FUNCTION IF EXISTS whole(bigint[]);

-- Internal functions of which a parameter was renamed.
DROP FUNCTION IF EXISTS requeue(float8, live, json, text);
DROP FUNCTION IF EXISTS settle_one(float8, text, integer, bigint, text, text, text, json, bytea[]);

-- The order of its columns has changed.
DROP FUNCTION IF EXISTS new_jobs(json, bytea[]);
