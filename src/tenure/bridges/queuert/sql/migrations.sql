-- migrations: the names of the migrations that Queuert has applied.
SELECT name FROM queuert.migration ORDER BY name
