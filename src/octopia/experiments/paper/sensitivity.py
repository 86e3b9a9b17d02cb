"""Which of our results hang on the cost model: small studies, each under profiles that differ in one assumption.

The studies are those of the scale ``tiny``, whatever the scale of the evaluation: what is of interest is not the number
but whether it moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.paper.comparing import (
    Compute,
    change,
    ratio,
    seconds_before,
    shares,
)
from octopia.experiments.paper.names import Name, Scale
from octopia.experiments.paper.running import run_variants
from octopia.experiments.paper.studies import Extent, Study, load_study
from octopia.experiments.paper.tables import (
    AS_ASSUMED,
    DYNAMIC,
    OCTOPIA,
    STATIC,
    TID,
    TID_DYNAMIC,
    TID_STATIC,
    SensitivityRow,
)
from octopia.simulator.profiles import PAPER, Profile, write_profile

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market
    from octopia.pipeline.jobs import Workspace as Bench


@dataclasses.dataclass(frozen=True, slots=True)
class Variation:
    """The profile with one assumption changed, and the studies that it could matter to."""

    name: str
    assumption: str
    changed_to: str
    costs: Mapping[str, Any]
    studies: tuple[Name, ...]

    def profile(self) -> Profile:
        """Return the whole profile."""
        return dataclasses.replace(PAPER, name=self.name, description=f"paper, {self.changed_to}", **self.costs)


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """One of our results."""

    text: str
    compute: Compute


_SETUP = (Name.PUBLISHERS, Name.SUBSCRIBERS)
_QUIET = (*_SETUP, Name.DELIVERY)
_TRAFFIC = (Name.DELIVERY, Name.BURST)

VARIATIONS = (
    Variation("as-assumed", AS_ASSUMED, "as the profile says", {}, tuple(Name)),
    Variation("slow-messages", "a message at a broker, 60 µs", "600 µs", {"message_us": 600.0}, tuple(Name)),
    Variation("far-brokers", "delay of a link, 0.15 ms", "1.5 ms", {"link_delay_ms": 1.5}, _QUIET),
    Variation("one-machine", "delay on one machine, 0.05 ms", "0.15 ms", {"same_machine_delay_ms": 0.15}, _SETUP),
    Variation("far-clients", "delay of a client, 0.05 ms", "0.5 ms", {"client_delay_ms": 0.5}, _QUIET),
    Variation("more-machines", "7 machines", "one for each broker", {"machines": 0}, _QUIET),
    Variation("steady-links", "jitter, 0.1 ms", "none", {"jitter_ms": 0.0}, tuple(Name)),
    Variation("slow-tables", "an entry of CLT or SRT, 0.2 µs", "2 µs", {"intersect_per_entry_us": 2.0}, _SETUP),
    Variation(
        "free-matching", "a subscription, 0.1 µs", "nothing", {"match_per_subscription_us": 0.0}, (Name.DELIVERY,)
    ),
    Variation("slow-matching", "a subscription, 0.1 µs", "1 µs", {"match_per_subscription_us": 1.0}, _TRAFFIC),
    Variation(
        "slow-publications",
        "a publication at a broker, 20 µs to match and 5 µs to select links",
        "200 µs and 50 µs",
        {"match_us": 200.0, "select_us": 50.0},
        _TRAFFIC,
    ),
    Variation("slow-search", "an entry searched, 0.05 µs", "1 µs", {"search_per_entry_us": 1.0}, (Name.BURST,)),
    Variation("fast-links", "sending, 3,000 µs", "1,000 µs", {"send_us": 1000.0}, _TRAFFIC),
    Variation("slow-links", "sending, 3,000 µs", "4,500 µs", {"send_us": 4500.0}, _TRAFFIC),
    Variation("narrow-links", "bandwidth, 1,000 Mbit/s", "10 Mbit/s", {"bandwidth_mbit_s": 10.0}, _TRAFFIC),
    Variation(
        "slow-brokers",
        "the bottleneck: sending, 3,000 µs",
        "brokers: a message takes 2,000 µs, sending nothing",
        {"send_us": 0.0, "message_us": 2000.0},
        _TRAFFIC,
    ),
)

_OCTOPIA_BOTH = (STATIC, DYNAMIC)
_TID_BOTH = (TID_STATIC, TID_DYNAMIC)
_DELAY = "publication_delay_ms"
_LESS = change("more", "less")
_HIGHER = change("higher", "lower")

QUANTITIES: Mapping[Name, tuple[Quantity, ...]] = {
    Name.PUBLISHERS: (
        Quantity(
            "advertisement delay, TID", ratio("publishers", "advertisement_delay_ms", (TID,), (OCTOPIA,), _HIGHER)
        ),
    ),
    Name.SUBSCRIBERS: (
        Quantity(
            "subscription delay, OctopiA", ratio("subscribers", "subscription_delay_ms", (OCTOPIA,), (TID,), _LESS)
        ),
    ),
    Name.DELIVERY: (
        Quantity("publication delay, OctopiA", ratio("delivery", _DELAY, (STATIC,), (TID_STATIC,), _LESS)),
    ),
    Name.BURST: (
        Quantity("burst: delay, IDR beside SPR", ratio("bursts", _DELAY, (DYNAMIC,), (STATIC,), _LESS)),
        Quantity("burst: IDR stable", seconds_before((DYNAMIC,), (STATIC,))),
        Quantity(
            "burst: within a second, IDR and SPR", ratio("bursts", "share_below_1s", (DYNAMIC,), (STATIC,), shares)
        ),
        Quantity("burst: queues, IDR beside SPR", ratio("bursts", "queue_length_mean", (DYNAMIC,), (STATIC,), _LESS)),
        Quantity(
            "burst: messages, IDR beside SPR", ratio("bursts", "publication_messages", (DYNAMIC,), (STATIC,), _LESS)
        ),
        Quantity("burst: delay, TID-D beside TID-S", ratio("bursts", _DELAY, (TID_DYNAMIC,), (TID_STATIC,), _HIGHER)),
        Quantity("burst: delay, OctopiA beside TID", ratio("bursts", _DELAY, _OCTOPIA_BOTH, _TID_BOTH, _LESS)),
        Quantity("burst: OctopiA stable, beside TID", seconds_before(_OCTOPIA_BOTH, _TID_BOTH)),
    ),
}


def without_repetition(study: Study) -> Study:
    """Leave out dynamic routing where it is forced onto static paths, which take the same time."""
    points = []
    for point in study.points:
        runs = [run for run in point.runs if not (run.uncongested and run.algorithm.is_dynamic)]
        points.append(dataclasses.replace(point, runs=tuple(runs)))
    return dataclasses.replace(study, points=tuple(points))


def vary(bench: Bench, name: Name, out: Path, market: Market) -> list[SensitivityRow]:
    """Run one study, very small, under every variation that could matter to it."""
    variations = [each for each in VARIATIONS if name in each.studies]
    profiles = {each.name: str(write_profile(each.profile(), out / "profiles")) for each in variations}
    study = without_repetition(load_study(name, Extent(Scale.TINY)))
    tables = run_variants(bench, study, str(out / "runs"), market, profiles)
    rows = []
    for quantity in QUANTITIES[name]:
        for each in variations:
            ours = quantity.compute(tables[each.name])
            found = "nothing to compare" if ours is None else ours.text
            rows.append(SensitivityRow(each.assumption, each.changed_to, quantity.text, found))
    return rows
