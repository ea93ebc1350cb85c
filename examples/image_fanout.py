# image_fanout.py
from tenure import App, Next

app = App("sqlite:///images.db")
album = app.flow("album")


@app.task(queue="pixels")
def resize(url: str, width: int) -> str:
    return f"{url}@{width}"


@album.step
async def split(urls: list[str]) -> Next:
    sizes = [resize.bind(url, width) for url in urls for width in (100, 800)]
    return Next("publish").using(
        after=sizes, if_blocker_fails="proceed"
    )  # holds no worker until all of them have ended


@album.step
async def publish(results: list[str]) -> str:
    return ", ".join(results)  # in the order of `after`


if __name__ == "__main__":
    run = album.start(urls=["cat.png", "dog.png"])
    app.worker(concurrency=4).run(until_empty=True)
    print(run.result())
