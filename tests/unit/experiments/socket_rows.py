"""Made-up rows of the comparison over sockets."""

from __future__ import annotations

import dataclasses
from typing import Any

from octopia.experiments.sockets.cases import CaseName
from octopia.experiments.sockets.rows import CpuSupply, SocketRow
from octopia.settings import Algorithm

STATIC = SocketRow(
    case=CaseName.SLOW_ALINKS,
    brokers=12,
    seed=4,
    algorithm=Algorithm.STATIC,
    publications=680,
    slow_links=2,
    link_rate=80.0,
    owed=8_000,
    delivered=8_000,
    delay_ms_mean=952.25,
    delay_ms_p99=4_900.5,
    publication_messages=5_100,
    status_messages=0,
    predicted_share=1.0,
    predicted_share_least=1.0,
    predicted_share_most=1.0,
    predicted_delay_ms_mean=948.5,
    predicted_delay_ms_least=948.5,
    predicted_delay_ms_most=948.5,
    predicted_delay_ms_p99=4_950.0,
    predicted_publication_messages=5_100.0,
    predicted_status_messages=0.0,
    noticed_ms=None,
    processors_used=0.25,
    busiest_process=0.4,
    waited_max=0.05,
    processors=CpuSupply.ENOUGH,
)


def socket_row(algorithm: Algorithm = Algorithm.STATIC, **changes: Any) -> SocketRow:
    """Return a row of a run with slow aLinks, with some changes."""
    return dataclasses.replace(STATIC, algorithm=algorithm, **changes)


def delayed(algorithm: Algorithm, measured_ms: float, predicted_ms: float, **changes: Any) -> SocketRow:
    """Return a row with these mean delays, predicted alike with all seeds."""
    predicted = {f"predicted_delay_ms_{name}": predicted_ms for name in ("mean", "least", "most")}
    return socket_row(algorithm, delay_ms_mean=measured_ms, **(predicted | changes))


def shared(algorithm: Algorithm, delivered: int, predicted: float, **changes: Any) -> SocketRow:
    """Return a row of a run with a dead broker, with these shares of 1,000 deliveries."""
    spread = dict.fromkeys(("predicted_share", "predicted_share_least", "predicted_share_most"), predicted)
    of_case = {"case": CaseName.DEAD_BROKER, "owed": 1_000, "delivered": delivered, "noticed_ms": 11.0}
    return socket_row(algorithm, **(of_case | {"slow_links": 0, "link_rate": 0.0} | spread | changes))
