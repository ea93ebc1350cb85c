"""Private servers for the tests: real ones, on free ports of this host, with their data in temporary folders.

Which server: `TEST_REDIS_URL` names one that runs already (tests that kill, fill or pause a server start their own all the
same); else `TEST_REDIS=redis` or `TEST_REDIS=valkey` chooses, and without it whatever `binaries` finds first is taken.
"""
