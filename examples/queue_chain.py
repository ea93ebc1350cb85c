# queue_chain.py
import asyncio

from tenure import App, Next
from tenure.errors import JobFailed

app = App("sqlite:///access.db", retry=None, log=False)  # an exception fails the run at once; nothing is logged
access = app.flow("access", lookup=["user", "roles"])


@access.step(then="grant", queue="checking")
async def check(roles: list[str]) -> dict[str, list[str]]:  # reads this attribute of the run only
    return {"allowed": [role for role in roles if role != "admin"]}  # merged into the attributes of the run


@access.step(queue="granting")
def grant(user: str, allowed: list[str]) -> Next:
    if not allowed:
        raise LookupError(f"nothing to grant to {user}")
    return Next("tell").using(after=[reward.bind(user, role) for role in allowed])  # one child for each, then the join


@access.step(queue="telling")
async def tell(user: str, results: list[str]) -> str:
    return f"{user} is now {' and '.join(results)}"


@app.task(queue="rewards")
def reward(user: str, role: str) -> str:
    return f"{role} no. {len(user)}"


async def main() -> None:
    async with access.workers(check=2), app.worker(["rewards"], concurrency=4):  # started and stopped together
        ann = await access.astart(user="ann", roles=["reader", "writer"])
        bob = await access.astart(user="bob", roles=["admin"])
        print(await ann.aresult(timeout=10))
        try:
            await bob.aresult(timeout=10)
        except JobFailed as error:
            print(error.message)
    for run in await access.afind(roles="admin"):
        await run.arefresh()
        print(f"done={run.done} failed={run.failed} completed={run.completed_queue} failed_in={run.failed_queue}")
    for step in await ann.asteps():
        print(f"{step.queue:9} {step.name:6} {step.state}")


if __name__ == "__main__":
    asyncio.run(main())
