"""Exhaustive search of small overlays.

The simulator runs one interleaving at a time; this package visits all of them. ``scenarios`` defines the searches.
``steps`` takes single steps of nodes. ``canonical`` compares states. ``model`` is the transition system of the overlay.
``ledger`` and ``quiescence`` hold the requirements. ``explorer`` searches, and ``narration`` describes its paths.
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
