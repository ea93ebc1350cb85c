-- open_edges_of: how many edges of the job ?1 are open.
SELECT count(*) FROM tenure_edges WHERE dependent = ?1 AND open = 1
