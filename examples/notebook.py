"""Brokers, a blocking client, a spool and Spark in one process, cell by cell as in a notebook."""

# %% Run an overlay in a thread with its own event loop.
import asyncio
import tempfile
import threading
from pathlib import Path

import octopia
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_session import make_session
from octopia.records.recording import Recording, record
from octopia.records.spool import SpoolReader

loop = asyncio.new_event_loop()
thread = threading.Thread(target=loop.run_forever, daemon=True)
thread.start()
overlay = octopia.Overlay.local(tree="a-b", clusters=2)
asyncio.run_coroutine_threadsafe(overlay.start(), loop).result()

# %% Spool every publication with a price.
place = tempfile.TemporaryDirectory()
spool = Path(place.name) / "spool"
is_ready, stop = threading.Event(), asyncio.Event()
recording = asyncio.run_coroutine_threadsafe(
    record(overlay.url("b.1"), Recording("price > 0", spool), stop, lambda _: is_ready.set()), loop
)
is_ready.wait(10)

# %% Publish some prices.
with octopia.connect_blocking(overlay.url("a.0")) as client:
    client.advertise("symbol IS NOT NULL AND price > 0")
    client.publish_many({"symbol": "IBM" if n % 2 else "SAP", "price": 100.0 + n} for n in range(100))
while SpoolReader(spool).end_offset < 100:
    threading.Event().wait(0.01)

# %% Read the prices as a table.
spark = make_session(PipelineSettings().for_small_tables())
prices = spark.read.format("octopia").schema("symbol string, price double").load(str(spool))
print(
    prices.count(),
    "prices, of which",
    prices.where("symbol = 'IBM' AND price > 150").count(),
    "are expensive ones of IBM",
)

# %% Stop everything.
loop.call_soon_threadsafe(stop.set)
print(recording.result().rows, "rows recorded")
asyncio.run_coroutine_threadsafe(overlay.stop(), loop).result()
loop.call_soon_threadsafe(loop.stop)
thread.join()
loop.close()
place.cleanup()
