"""Processes of benchmarks/network.py, and the bare relay, which is one of them.

A relay reads, decodes, encodes and writes frames. It stops reading while it cannot write.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from octopia.addresses import Address
from octopia.protocol import Opening, Role, WireItem
from octopia.transport.loop import run_loop
from octopia.wire import Reader, encode

PATIENCE_S = 60.0


class Wrong(Exception):
    """A publication was not delivered exactly once, or a process failed."""


class Child:
    """A forked process that communicates over a pipe."""

    def __init__(self, name: str, main: Callable[..., Coroutine[Any, Any, None]], *arguments: Any):
        self.name = name
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(main, theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid or 0

    def tell(self, *words: Any) -> None:
        """Send a command to the process."""
        self._pipe.send(words)

    def hear(self) -> Any:
        """Wait for a message from the process."""
        if not self._pipe.poll(PATIENCE_S):
            raise Wrong(f"expected a message from the {self.name} within {PATIENCE_S:g} s, got none")
        try:
            return self._pipe.recv()
        except EOFError:
            raise Wrong(f"the {self.name} has died") from None

    def end(self) -> None:
        """Stop the process."""
        self._pipe.close()
        self._process.kill()
        self._process.join()


def _run(main: Callable[..., Coroutine[Any, Any, None]], pipe: Pipe, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run_loop(main(pipe, *arguments))


class Program:
    """A process in the middle that runs the code of a source tree, which may be another one than this process runs."""

    def __init__(self, name: str, source: Path, *arguments: str):
        self.name = name
        environment = {**os.environ, "PYTHONPATH": str(source)}
        command = [sys.executable, str(Path(__file__).with_name("network_middle.py")), *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def hear(self) -> str:
        """Wait until the process is ready."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE_S)[0]:
            raise Wrong(f"expected the {self.name} to be ready within {PATIENCE_S:g} s, got nothing")
        said = self._process.stdout.readline()
        if not said:
            raise Wrong(f"the {self.name} has died")
        return said

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.communicate()


def end_all(processes: Sequence[Child | Program]) -> None:
    """Stop processes at the same time, so that none reports the end of another."""
    for each in processes:
        os.kill(each.pid, signal.SIGKILL)
    for each in processes:
        each.end()


class Ears:
    """The commands to a child, in its event loop."""

    def __init__(self, pipe: Pipe):
        self._pipe = pipe
        self._heard: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._listen)

    def _listen(self) -> None:
        try:
            self._heard.put_nowait(self._pipe.recv())
        except EOFError:
            raise SystemExit from None

    async def next(self) -> tuple[Any, ...]:
        """Wait for the next command."""
        return await self._heard.get()


# The relay.


class Relay:
    """The state that the connections of a relay share: the receivers of frames."""

    def __init__(self, share: int):
        self.outputs: list[RelayConnection] = []
        self.inputs: list[RelayConnection] = []
        self._share = share

    def forward(self, items: list[WireItem]) -> None:
        """Write frames to every output, or to one half of the outputs and the other half in turn."""
        outputs = self.outputs
        if self._share == 1:
            for output in outputs:
                output.write(items)
            return
        width = len(outputs) // self._share
        shares: list[list[WireItem]] = [[] for _ in range(self._share)]
        for item in items:
            shares[item.message.sequence % self._share].append(item)  # type: ignore[union-attr]
        for number, share in enumerate(shares):
            if share:
                for output in outputs[number * width : (number + 1) * width]:
                    output.write(share)

    def set_reading(self, *, reads: bool) -> None:
        """Stop reading while an output is full."""
        for each in self.inputs:
            if reads:
                each.transport.resume_reading()
            else:
                each.transport.pause_reading()


class RelayConnection(asyncio.Protocol):
    """One connection of a relay: an input, unless its Opening names it a receiver."""

    def __init__(self, relay: Relay):
        self._relay = relay
        self._reader = Reader()

    def connection_made(self, transport: Any) -> None:
        """Start the connection."""
        self.transport = transport
        transport.set_write_buffer_limits(high=256 * 1024)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Forward the frames of one read in one write."""
        items = list(self._reader.feed(data))
        if items and type(items[0]) is Opening:
            opening = items.pop(0)
            (self._relay.outputs if opening.sender.startswith("S") else self._relay.inputs).append(self)  # type: ignore[union-attr]
            self.write([opening])
        if items:
            self._relay.forward(items)

    def write(self, items: list[WireItem]) -> None:
        """Encode and write."""
        self.transport.write(b"".join(map(encode, items)))

    def pause_writing(self) -> None:
        """Stop reading until the output has room."""
        self._relay.set_reading(reads=False)

    def resume_writing(self) -> None:
        """Resume reading."""
        self._relay.set_reading(reads=True)


async def start_relay(address: Address, onward: Address | None, share: int) -> asyncio.Server:
    """Listen, and forward to connected receivers, or to the next relay."""
    loop, relay = asyncio.get_running_loop(), Relay(share)
    server = await loop.create_server(lambda: RelayConnection(relay), address.host, address.port)
    if onward is not None:
        _, connection = await loop.create_connection(lambda: _Onward(relay), onward.host, onward.port)
        connection.write([Opening(Role.CLIENT, "P")])
        relay.outputs.append(connection)
    return server


async def run_relay(pipe: Pipe, address: Address, onward: Address | None, share: int) -> None:
    """Run a relay in a child process."""
    server = await start_relay(address, onward, share)
    pipe.send("ready")
    await server.serve_forever()


class _Onward(RelayConnection):
    """The connection to the next relay; only its greeting comes back over it."""

    def data_received(self, data: bytes) -> None:
        """Ignore it."""
