"""Messages to the supervisor of this process, such as systemd: it is ready, or it is stopping.

A supervisor that waits for them passes the address of a socket in ``NOTIFY_SOCKET``. Without one, nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify_supervisor(message: str) -> bool:
    """Send a message to the supervisor, and return whether there is one that took it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    # An address with @ is in the abstract name space, which begins with a zero byte.
    name = f"\0{address[1:]}" if address[0] == "@" else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode(), name)
        return True
    return False
