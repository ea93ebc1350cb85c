# orders.py
import apsw

from tenure import App, Context

app = App("sqlite:///orders.db")


@app.task
def confirm(ctx: Context, order: int) -> str:
    with ctx.complete() as tx:  # the row, the result and the end of the job: all or nothing
        tx.execute("UPDATE orders SET state = 'confirmed' WHERE id = ?", order)
        tx.result = answer = f"order {order} is confirmed"
    return answer  # for type checkers: the job is final already


app.queues()  # opens the store and creates its tables, before our own transaction begins
database = apsw.Connection("orders.db")
database.set_busy_timeout(10_000)  # without it, a busy database raises at once
database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT)")
with database:  # the order and its job, both or neither
    [(new,)] = database.execute("INSERT INTO orders (state) VALUES ('new') RETURNING id")
    job = confirm.using(connection=database).enqueue(new)

app.worker().run(until_empty=True)
print(job.result(), database.execute("SELECT * FROM orders").fetchall())
