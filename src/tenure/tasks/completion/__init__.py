"""Completion of a job in a transaction: `ctx.prepare()` and `ctx.complete()`, in coroutines and in threads.

A job that is completed in a transaction becomes final when that commits, together with everything else that was written in
it. The fencing token decides, as for every job: of two holders only one commits. Until the settle is sent, nothing has
changed. From then on only the store knows what became of the job, and is asked for it (`Store.lease_status`).

A store belongs to the worker's event loop, and everything is done there: a function in a thread waits for that loop. Only
the caller's own connection is used on the caller's thread.
"""
