"""The sensitivity of our results to the cost model: small studies under profiles that differ in one assumption.

The studies have the scale ``tiny`` in every evaluation: the question is not the number, but whether it moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.paper import columns
from octopia.experiments.paper.comparisons import Comparison, change, ratio, seconds_before, shares
from octopia.experiments.paper.names import ALGORITHMS, Scale, StudyName, System
from octopia.experiments.paper.rows import AS_ASSUMED, SensitivityRow
from octopia.experiments.paper.studies import Extent, Study, load_study
from octopia.experiments.paper.study_runs import run_variants
from octopia.simulator.profiles import PAPER, Profile, write_profile

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market, Workspace


@dataclasses.dataclass(frozen=True, slots=True)
class Variation:
    """The profile with one assumption changed, and the studies that it may affect."""

    name: str
    assumption: str
    changed_to: str
    costs: Mapping[str, Any]
    studies: tuple[StudyName, ...]

    def profile(self) -> Profile:
        """Return the whole profile."""
        return dataclasses.replace(PAPER, name=self.name, description=f"paper, {self.changed_to}", **self.costs)


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """One of our results."""

    text: str
    comparison: Comparison


_SETUP = (StudyName.PUBLISHERS, StudyName.SUBSCRIBERS)
_QUIET = (*_SETUP, StudyName.DELIVERY)
_TRAFFIC = (StudyName.DELIVERY, StudyName.BURST)
_ALL = tuple(StudyName)

VARIATIONS = (
    Variation("as-assumed", AS_ASSUMED, "as the profile says", {}, _ALL),
    Variation("slow-messages", "time per message at a broker, 60 µs", "600 µs", {"message_us": 600.0}, _ALL),
    Variation("far-brokers", "delay of a link, 0.15 ms", "1.5 ms", {"link_delay_ms": 1.5}, _QUIET),
    Variation("one-machine", "delay on one machine, 0.05 ms", "0.15 ms", {"same_machine_delay_ms": 0.15}, _SETUP),
    Variation("far-clients", "delay of a client, 0.05 ms", "0.5 ms", {"client_delay_ms": 0.5}, _QUIET),
    Variation("more-machines", "7 machines", "one for each broker", {"machines": 0}, _QUIET),
    Variation("steady-links", "jitter, 0.1 ms", "none", {"jitter_ms": 0.0}, _ALL),
    Variation("slow-tables", "time per entry of CLT or SRT, 0.2 µs", "2 µs", {"intersect_per_entry_us": 2.0}, _SETUP),
    Variation("free-matching", "matching per subscription, 0.1 µs", "nothing", {"match_per_subscription_us": 0.0},
              (StudyName.DELIVERY,)),
    Variation("slow-matching", "matching per subscription, 0.1 µs", "1 µs", {"match_per_subscription_us": 1.0},
              _TRAFFIC),
    Variation("slow-publications", "time per publication at a broker, 20 µs to match and 5 µs to select links",
              "200 µs and 50 µs", {"match_us": 200.0, "select_us": 50.0}, _TRAFFIC),
    Variation("slow-search", "search per entry, 0.05 µs", "1 µs", {"search_per_entry_us": 1.0}, (StudyName.BURST,)),
    Variation("fast-links", "sending, 3,000 µs", "1,000 µs", {"send_us": 1000.0}, _TRAFFIC),
    Variation("slow-links", "sending, 3,000 µs", "4,500 µs", {"send_us": 4500.0}, _TRAFFIC),
    Variation("narrow-links", "bandwidth, 1,000 Mbit/s", "10 Mbit/s", {"bandwidth_mbit_s": 10.0}, _TRAFFIC),
    Variation("slow-brokers", "the bottleneck: sending, 3,000 µs", "brokers: a message takes 2,000 µs, sending nothing",
              {"send_us": 0.0, "message_us": 2000.0}, _TRAFFIC),
)  # fmt: skip

OCTOPIA, TID = System
STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC = ALGORITHMS
_OCTOPIA_BOTH = (STATIC, DYNAMIC)
_TID_BOTH = (TID_STATIC, TID_DYNAMIC)
_LESS = change("more", "less")
_HIGHER = change("higher", "lower")

QUANTITIES: Mapping[StudyName, tuple[Quantity, ...]] = {
    StudyName.PUBLISHERS: (
        Quantity("advertisement delay, TID", ratio(columns.ADVERTISEMENT_DELAY_MS, (TID,), (OCTOPIA,), _HIGHER)),
    ),
    StudyName.SUBSCRIBERS: (
        Quantity("subscription delay, OctopiA", ratio(columns.SUBSCRIPTION_DELAY_MS, (OCTOPIA,), (TID,), _LESS)),
    ),
    StudyName.DELIVERY: (
        Quantity("publication delay, OctopiA", ratio(columns.PUBLICATION_DELAY_MS, (STATIC,), (TID_STATIC,), _LESS)),
    ),
    StudyName.BURST: (
        Quantity("burst: delay, IDR beside SPR", ratio(columns.BURST_DELAY_MS, (DYNAMIC,), (STATIC,), _LESS)),
        Quantity("burst: IDR stable", seconds_before((DYNAMIC,), (STATIC,))),
        Quantity(
            "burst: within a second, IDR and SPR", ratio(columns.BURST_SHARE_BELOW_1S, (DYNAMIC,), (STATIC,), shares)
        ),
        Quantity("burst: queues, IDR beside SPR", ratio(columns.BURST_QUEUE_LENGTH, (DYNAMIC,), (STATIC,), _LESS)),
        Quantity("burst: messages, IDR beside SPR", ratio(columns.BURST_MESSAGES, (DYNAMIC,), (STATIC,), _LESS)),
        Quantity(
            "burst: delay, TID-D beside TID-S", ratio(columns.BURST_DELAY_MS, (TID_DYNAMIC,), (TID_STATIC,), _HIGHER)
        ),
        Quantity("burst: delay, OctopiA beside TID", ratio(columns.BURST_DELAY_MS, _OCTOPIA_BOTH, _TID_BOTH, _LESS)),
        Quantity("burst: OctopiA stable, beside TID", seconds_before(_OCTOPIA_BOTH, _TID_BOTH)),
    ),
}


def without_repetition(study: Study) -> Study:
    """Return a study without dynamic routing on static paths, which takes the same time as static routing."""
    points = []
    for point in study.points:
        runs = [run for run in point.runs if not (run.uncongested and run.algorithm.is_dynamic)]
        points.append(dataclasses.replace(point, runs=tuple(runs)))
    return dataclasses.replace(study, points=tuple(points))


def vary(workspace: Workspace, name: StudyName, out: Path, market: Market) -> list[SensitivityRow]:
    """Run one study at the scale tiny under every variation that may affect it."""
    variations = [each for each in VARIATIONS if name in each.studies]
    profiles = {each.name: str(write_profile(each.profile(), out / "profiles")) for each in variations}
    study = without_repetition(load_study(name, Extent(Scale.TINY)))
    tables = run_variants(workspace, study, str(out / "runs"), market, profiles)
    rows = []
    for quantity in QUANTITIES[name]:
        for each in variations:
            ours = quantity.comparison.compute(tables[each.name])
            found = "nothing to compare" if ours is None else ours.text
            rows.append(SensitivityRow(each.assumption, each.changed_to, quantity.text, found))
    return rows
