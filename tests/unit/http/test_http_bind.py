"""Addresses at which HTTP cannot be served, and why."""

from __future__ import annotations

import socket

import pytest

from octopia.addresses import Address
from octopia.errors import Unavailable
from octopia.http.server import bind


def test_a_host_that_cannot_be_resolved_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_server(*_: object, **__: object) -> socket.socket:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known (while attempting to bind)")

    monkeypatch.setattr(socket, "create_server", create_server)
    with pytest.raises(Unavailable, match=r"HTTP cannot be served at nowhere:80: Name or service not known$"):
        bind(Address("nowhere", 80))
