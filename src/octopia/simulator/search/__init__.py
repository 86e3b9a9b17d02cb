"""Exhaustive search over small overlays.

The simulator plays one story at a time; this package looks at all of them. ``scenarios`` says what is searched,
``steps`` takes single steps of nodes, ``canonical`` tells their states apart, ``model`` makes a transition
system of the whole, ``ledger`` and ``judging`` know what must hold, ``explorer`` searches and ``telling`` puts what it
found into words.
"""

from octopia.simulator.search.explorer import Explorer, Order, Report, Violation
from octopia.simulator.search.scenarios import DEEP, ORDINARY, SCENARIOS, Client, Scenario, find_scenario

__all__ = [
    "Client",
    "DEEP",
    "Explorer",
    "ORDINARY",
    "Order",
    "Report",
    "SCENARIOS",
    "Scenario",
    "Violation",
    "find_scenario",
]
