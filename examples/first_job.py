from tenure import App

app = App("sqlite:///jobs.db")


@app.task
def add(a: int, b: int) -> int:
    return a + b


job = add.enqueue(2, 3)
app.worker().run(until_empty=True)
print(job.result())
