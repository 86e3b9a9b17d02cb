"""The process in the middle of a line, as a program: a broker or a relay, from the source tree of PYTHONPATH.

It runs brokers of another checkout, brokers and relays without compiled modules, and brokers that trace. It prints one
line when it is ready, and ends when its input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from network_processes import start_relay
from octopia.addresses import Address
from octopia.broker import Detail
from octopia.client.operators import is_connected
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay, load_overlay
from octopia.runtime.defaults import default_settings
from octopia.runtime.operating import report_on
from octopia.runtime.process import exclude_from_collection
from octopia.runtime.server import BrokerServer
from octopia.transport.loop import run_loop

POLL_S = 0.01


async def start_broker(overlay: Overlay, broker: BrokerId, detail: Detail = Detail.OFF) -> BrokerServer:
    """Run a broker until its process ends, and return it when all of its links are up.

    Facts of a trace are taken and dropped after every input, as a writer of traces would take them.
    """

    def observe(server: BrokerServer) -> None:
        server.node.drain_facts()

    settings = dataclasses.replace(default_settings(overlay), detail=detail)
    server = BrokerServer(overlay, broker, settings, observe=observe if detail else None)
    await server.listen()
    server.start()
    while not is_connected(report_on(server)):
        await asyncio.sleep(POLL_S)
    return server


async def run_broker(pipe: Pipe, overlay: Overlay, broker: BrokerId) -> None:
    """Run a broker in a child process."""
    exclude_from_collection()
    server = await start_broker(overlay, broker)
    pipe.send("ready")
    await asyncio.Event().wait()
    del server


async def main() -> None:
    """Run a broker or a relay until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    broker = kinds.add_parser("broker")
    broker.add_argument("overlay", type=Path)
    broker.add_argument("broker", type=BrokerId.parse)
    broker.add_argument("--trace", type=lambda name: Detail[name.upper()], default=Detail.OFF)
    relay = kinds.add_parser("relay")
    relay.add_argument("port", type=int)
    relay.add_argument("--onward", type=int, help="the port of the next relay")
    relay.add_argument("--shares", type=int, default=1)
    chosen = parser.parse_args()
    exclude_from_collection()
    running: BrokerServer | asyncio.Server
    if chosen.kind == "broker":
        running = await start_broker(load_overlay(chosen.overlay), chosen.broker, chosen.trace)
    else:
        onward = chosen.onward and Address("127.0.0.1", chosen.onward)
        running = await start_relay(Address("127.0.0.1", chosen.port), onward, chosen.shares)
    print("ready", flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    del running


if __name__ == "__main__":
    run_loop(main())
