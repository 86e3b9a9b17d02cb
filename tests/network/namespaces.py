"""Hosts of a network inside this machine: a network namespace each, all on one bridge, some of their ways made slow."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any

SUBNET = "10.77.0"
_FAST = ("rate", "10gbit", "quantum", "60000")


class Hosts:
    """Namespaces with a network card each; all names begin with a prefix of this process."""

    def __init__(self, names: Sequence[str]):
        self._prefix = f"oct{os.getpid()}-"
        self._addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, start=1)}

    def __enter__(self) -> Hosts:
        switch = self.namespace("switch")
        try:
            for name in ("switch", *self._addresses):
                _run("ip", "netns", "add", self.namespace(name))
            # The bridge must not ask the firewall of this machine about what it carries.
            _run("ip", "netns", "exec", switch, "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0", must=False)
            _run("ip", "-n", switch, "link", "add", "bridge0", "type", "bridge")
            _run("ip", "-n", switch, "link", "set", "bridge0", "up")
            for number, (name, address) in enumerate(self._addresses.items(), start=1):
                host = self.namespace(name)
                _run("ip", "-n", switch, "link", "add", f"port{number}", "type", "veth", "peer", "eth0", "netns", host)
                _run("ip", "-n", switch, "link", "set", f"port{number}", "master", "bridge0", "up")
                _run("ip", "-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
                _run("ip", "-n", host, "link", "set", "eth0", "up")
                _run("ip", "-n", host, "link", "set", "lo", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def namespace(self, name: str) -> str:
        """Return the namespace of a host."""
        return self._prefix + name

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return self._addresses[name]

    def command(self, name: str, *command: str) -> list[str]:
        """Return a command that runs at a host."""
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def cap(self, source: str, targets: Sequence[str], rate: str, limit: str) -> None:
        """Let no more than ``rate`` through from one host to some others, each of them for itself."""
        tc = functools.partial(_run, "tc", "-n", self.namespace(source))
        tc("qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1")
        tc("class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", *_FAST)
        for number, target in enumerate(targets, start=2):
            flow = f"1:{number}"
            tc("class", "add", "dev", "eth0", "parent", "1:", "classid", flow, "htb", *_FAST)
            tc("qdisc", "add", "dev", "eth0", "parent", flow, "tbf", "rate", rate, "burst", "4kb", "limit", limit)
            match = ["u32", "match", "ip", "dst", f"{self.address(target)}/32", "flowid", flow]
            tc("filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", "prio", "1", *match)

    def slow_queues(self, source: str) -> list[dict[str, Any]]:
        """Return what the kernel says of the capped ways from a host: backlog, drops, and so on."""
        said = _run("tc", "-n", self.namespace(source), "-s", "-j", "qdisc", "show", "dev", "eth0")
        return [each for each in json.loads(said) if each["kind"] == "tbf"]

    def _remove(self) -> None:
        for name in (*self._addresses, "switch"):
            _run("ip", "netns", "del", self.namespace(name), must=False)


@functools.cache
def why_not() -> str:
    """Say why there can be no namespaces here; nothing if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Hosts(["try", "other"]) as hosts:
            hosts.cap("try", ["other"], "1mbit", "100kb")
            hosts.slow_queues("try")
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        return f"network namespaces cannot be made here: {getattr(error, 'stderr', None) or error}"
    return ""


def _run(*command: str, must: bool = True) -> str:
    return subprocess.run(command, text=True, check=must, capture_output=True).stdout
