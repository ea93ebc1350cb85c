"""What runs jobs. `worker.py` has the loop, `executor.py` the life of a job, `keeper.py` what keeps its lease alive."""
