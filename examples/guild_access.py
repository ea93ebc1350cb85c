# guild_access.py
import os

from tenure import App
from tenure.bridges import Guild

app = App("sqlite:///access.db", log=False)  # any store
address = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guild = Guild(app, address, flow="access", lookup=["userId", "roleIds"])


@guild.queue("checking", then="granting", reads={"user": "userId", "roles": "roleIds"})
async def checking(user: int, roles: list[str]) -> dict[str, object]:
    if not roles:
        raise ValueError(f"user {user} asks for nothing")
    return {"allowed": [role for role in roles if role != "admin"]}  # merged into the attributes


@guild.queue("granting")  # a Node worker could do this as well
def granting(allowed: list[str]) -> dict[str, object]:
    return {"done": True, "granted": len(allowed)}


if __name__ == "__main__":
    guild.start(userId=7, roleIds=["reader", "admin"])  # as a Node program would create it
    guild.start(userId=8, roleIds=[])
    guild.worker().run(until_empty=True)

    for job in [*guild.find(userId=7), *guild.find(userId=8)]:
        print(job.attributes["userId"], f"failed: {job.error}" if job.failed else job.attributes["granted"])
