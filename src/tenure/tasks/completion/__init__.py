"""Transactions of a job's own: what `ctx.prepare()` and `ctx.complete()` open, in coroutines and in threads.

A job that is completed in a transaction becomes final when that commits, together with whatever else was written there, and by
the same token as any other job: of two holders one commits. Until the settle is sent, everything is as if there were no
transaction; from then on the store alone knows what became of the job, and is asked for it (`Store.holding`).

A store object belongs to the worker's event loop, and so does all that is done with it: a function in a thread waits for that
loop. Only what a caller's own connection does happens where the caller is.
"""
