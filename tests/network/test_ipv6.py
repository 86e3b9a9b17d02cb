"""An overlay on IPv6 addresses: brokers, clients and operators over real sockets."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from processes import free_ports

import octopia

OCTOPIA = [sys.executable, "-m", "octopia"]
PATIENCE_S = 60


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="nothing can listen at ::1: this machine has no IPv6")
def test_brokers_clients_and_operators_use_ipv6(tmp_path: Path) -> None:
    names = ["a.0", "a.1", "b.0", "b.1"]
    ports = dict(zip(names, free_ports(len(names), "::1"), strict=True))
    brokers = "".join(f'[brokers."{name}"]\nhost = "::1"\nport = {port}\n' for name, port in ports.items())
    file = tmp_path / "overlay.toml"
    file.write_text(f'tree = "a-b"\nclusters = 2\n{brokers}')
    urls = {name: f"octopia://[::1]:{port}/{name}" for name, port in ports.items()}
    overlay = subprocess.Popen(
        [*OCTOPIA, "up", str(file), "--processes", "2", "--plain"], stdout=subprocess.PIPE, text=True
    )
    assert overlay.stdout is not None
    try:
        assert f"at [::1]:{ports['a.0']} to [::1]:{ports['b.1']}" in overlay.stdout.readline()
        asyncio.run(publish_across(urls["a.0"], urls["b.1"]))
        throttled = subprocess.run(
            [*OCTOPIA, "link", "throttle", "b.1:b.0", "--rate", "50", "--json", "--url", urls["a.0"]],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert json.loads(throttled.stdout) == [
            {"from": "b.1", "to": "b.0", "rate": 50.0, "delay_ms": None, "cut": False}
        ]
    finally:
        overlay.send_signal(signal.SIGTERM)
        rest, _ = overlay.communicate(timeout=PATIENCE_S)
    assert "all brokers have stopped" in rest


async def publish_across(publisher_url: str, subscriber_url: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with octopia.connect(subscriber_url) as subscriber, octopia.connect(publisher_url) as publisher:
            subscription = await subscriber.subscribe("price > 100")
            await publisher.advertise("price > 0")
            await publisher.publish({"price": 101})
            assert (await anext(subscription))["price"] == 101
