# schedules.py
import asyncio

from tenure import App, Context, Cron, Every

app = App("sqlite:///reports.db", log=False)


@app.task(schedule=Cron("0 3 * * *", "Europe/Paris"))  # a schedule named after the task
def clean_up() -> None: ...


@app.task
def measure(ctx: Context, city: str) -> str:
    return f"{city}, {ctx.tick:%S}"  # the time that the job was meant for, whenever it runs


app.schedule("hourly-measure", measure.bind("Lyon"), Every(3600), overlap="skip", jitter=60)


async def main() -> None:
    async with app.worker(), app.worker():  # both fire; each tick has one job all the same
        paris = await app.acreate_schedule("paris", measure.bind("Paris"), Every(1))  # at run time
        while len(paris.history) < 3:
            await asyncio.sleep(0.2)
            await paris.arefresh()
        await paris.apause()
    for each in await app.aschedules():
        print(f"{each.name}: {each.words}, {each.state}")
    ticks = [job.tick for job in await app.ajobs(schedule="paris")]
    print("one job for each tick:", len(ticks) == len(set(ticks)) >= 3)


if __name__ == "__main__":
    asyncio.run(main())
