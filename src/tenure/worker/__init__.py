"""The worker: leases jobs, runs them, and settles them.

Start reading at `worker.py` (start and stop) and `loop.py` (settle, lease, wait); `executor.py` runs one attempt and
`keeper.py` renews leases.
"""
