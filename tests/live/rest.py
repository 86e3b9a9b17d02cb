"""When an overlay is at rest: nothing waits, nothing is on its way, and everybody knows it."""

from __future__ import annotations

from collections.abc import Sequence

from raw_client import RawClient

from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer


def unrest(node: BrokerServer) -> list[str]:
    """Say what keeps a node from rest; whatever is on its way is kept by whoever wrote it."""
    state = node.broker.state
    found = [f"{node.id} does not take publications"] * (not node.broker.accepts_data)
    for peer, link in node.node.links.items():
        found += [f"{node.id}-{peer} is down"] * (not link.is_up)
        found += [f"{node.id} awaits an acknowledgement of {peer}"] * link.session.awaits_acknowledgement
        found += [f"at {node.id} something waits for {peer}"] * (not state.queues[peer].is_empty)
    for client, link in node.node.clients.items():
        if link.is_connected:
            found += [f"{node.id} awaits an acknowledgement of {client}"] * link.session.awaits_acknowledgement
            found += [f"at {node.id} something waits for {client}"] * (not link.mailbox.is_empty)
    found += [f"{node.id} has not finished an input"] * node.node.is_behind
    found += [f"at {node.id} publications wait for a way"] * bool(len(getattr(state, "room", ())))
    return found + [f"at {node.id} publications wait to be placed"] * bool(getattr(state, "inputs", None))


def is_at_rest(overlay: Overlay) -> bool:
    """Tell whether no broker has anything to do."""
    return not any(unrest(node) for node in overlay._servers.values())


async def overlay_at_rest(overlay: Overlay, clients: Sequence[RawClient] = (), timeout_s: float = 20.0) -> None:
    """Wait until neither the brokers nor these clients have anything to do."""
    while not (is_at_rest(overlay) and all(client.is_at_rest for client in clients)):
        try:
            await overlay.wait_until(lambda: is_at_rest(overlay), "rest", timeout_s)
        except Exception as error:
            reasons = [each for node in overlay._servers.values() for each in unrest(node)]
            raise AssertionError(f"no rest: {reasons}") from error
        for client in clients:
            await client.until(lambda client=client: client.is_at_rest, "its last acknowledgement", timeout_s)
