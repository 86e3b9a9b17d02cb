"""The sensitivity of our results to the cost model: small studies under profiles that differ in one assumption.

The assumptions that decide most claims are also varied together: who shares a sender, how TID's trees are drawn, and
whether an inner or an edge broker hosts the burst.

The studies have the scale ``tiny`` in every evaluation: the question is not the number, but whether it moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.paper import columns
from octopia.experiments.paper.comparisons import HIGHER, MORE, Comparison, ratio, seconds_before, shares
from octopia.experiments.paper.names import (
    ADAPTIVE,
    DYNAMIC,
    PAPER_ALGORITHMS,
    PAPER_OCTOPIA,
    PAPER_TID,
    STATIC,
    TID_DYNAMIC,
    TID_STATIC,
    Contender,
    Model,
    Scale,
    StudyName,
    System,
)
from octopia.experiments.paper.rows import AS_ASSUMED, DecisiveRow, SensitivityRow, Tables, tables_of
from octopia.experiments.paper.studies import Extent, Study, load_study
from octopia.experiments.paper.study_runs import run_variants
from octopia.pipeline.spec import HostKind
from octopia.settings import Algorithm
from octopia.simulator.profiles import PAPER, Profile, find_profile, write_profile
from octopia.workloads.runs import RunSpec

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
    Variation("steady-links", "jitter, 0.1 ms", "none", {"jitter_ms": 0.0}, _QUIET),
    Variation("slow-tables", "time per entry of CLT or SRT, 0.2 µs", "2 µs", {"intersect_per_entry_us": 2.0}, _SETUP),
    Variation("free-matching", "matching per subscription, 0.1 µs", "nothing", {"match_per_subscription_us": 0.0},
              (StudyName.DELIVERY,)),
    Variation("slow-matching", "matching per subscription, 0.1 µs", "1 µs", {"match_per_subscription_us": 1.0},
              (StudyName.DELIVERY,)),
    Variation("slow-publications", "time per publication at a broker, 20 µs to match and 5 µs to select links",
              "200 µs and 50 µs", {"match_us": 200.0, "select_us": 50.0}, _TRAFFIC),
    Variation("slow-search", "search per entry, 0.05 µs", "1 µs", {"search_per_entry_us": 1.0}, (StudyName.BURST,)),
    Variation("fast-links", "sending, 3,000 µs", "1,000 µs", {"send_us": 1000.0}, _TRAFFIC),
    Variation("least-sending", "sending, 3,000 µs", "2,050 µs, the least that the paper's 157 s allow",
              {"send_us": 2050.0}, (StudyName.BURST,)),
    Variation("slow-links", "sending, 3,000 µs", "4,500 µs", {"send_us": 4500.0}, _TRAFFIC),
    Variation("credit", "credit of a receiver, unlimited", "64 KiB per link and class, as on the network",
              {"credit_kib": 64.0}, (StudyName.BURST,)),
    Variation("narrow-links", "bandwidth, 1,000 Mbit/s", "10 Mbit/s", {"bandwidth_mbit_s": 10.0},
              (StudyName.DELIVERY,)),
    Variation("slow-brokers", "the bottleneck: sending, 3,000 µs", "brokers: a message takes 2,000 µs, sending nothing",
              {"send_us": 0.0, "message_us": 2000.0}, _TRAFFIC),
)  # fmt: skip

OCTOPIA, TID = System.OCTOPIA, System.TID

QUANTITIES: Mapping[StudyName, tuple[Quantity, ...]] = {
    StudyName.PUBLISHERS: (
        Quantity("advertisement delay, TID", ratio(columns.ADVERTISEMENT_DELAY_MS, (TID,), (OCTOPIA,), HIGHER)),
    ),
    StudyName.SUBSCRIBERS: (
        Quantity("subscription delay, OctopiA", ratio(columns.SUBSCRIPTION_DELAY_MS, (OCTOPIA,), (TID,), MORE)),
    ),
    StudyName.DELIVERY: (
        Quantity("publication delay, OctopiA", ratio(columns.PUBLICATION_DELAY_MS, (STATIC,), (TID_STATIC,), MORE)),
    ),
    StudyName.BURST: (
        Quantity("burst: delay, IDR compared with SPR", ratio(columns.BURST_DELAY_MS, (DYNAMIC,), (STATIC,), MORE)),
        Quantity("burst: IDR stable", seconds_before((DYNAMIC,), (STATIC,))),
        Quantity(
            "burst: within a second, IDR and SPR", ratio(columns.BURST_SHARE_BELOW_1S, (DYNAMIC,), (STATIC,), shares)
        ),
        Quantity(
            "burst: queues, IDR compared with SPR", ratio(columns.BURST_QUEUE_LENGTH, (DYNAMIC,), (STATIC,), MORE)
        ),
        Quantity("burst: messages, IDR compared with SPR", ratio(columns.BURST_MESSAGES, (DYNAMIC,), (STATIC,), MORE)),
        Quantity(
            "burst: delay, TID-D compared with TID-S",
            ratio(columns.BURST_DELAY_MS, (TID_DYNAMIC,), (TID_STATIC,), HIGHER),
        ),
        Quantity(
            "burst: delay, OctopiA compared with TID", ratio(columns.BURST_DELAY_MS, PAPER_OCTOPIA, PAPER_TID, MORE)
        ),
        Quantity("burst: OctopiA stable, compared with TID", seconds_before(PAPER_OCTOPIA, PAPER_TID)),
    ),
}


def small_study(name: StudyName) -> Study:
    """Return a study at the scale tiny with the paper's algorithms, and with a burst at an edge broker, as most are.

    Dynamic routing on static paths is left out, because it takes the same time as static routing.
    """
    hosts = (HostKind.EDGE,) if name is StudyName.BURST else ()
    study = load_study(name, Extent(Scale.TINY, models=(Model.LINKS,), hosts=hosts))
    return _only(
        study,
        lambda run: (
            Contender.of(run.algorithm, run.tid_copies) in PAPER_ALGORITHMS
            and not (run.uncongested and run.algorithm.is_dynamic)
        ),
    )


def _only(study: Study, wanted: Callable[[RunSpec], bool]) -> Study:
    """Return a study with some of its runs."""
    points = [
        dataclasses.replace(point, runs=tuple(run for run in point.runs if wanted(run))) for point in study.points
    ]
    return dataclasses.replace(study, points=tuple(points))


def vary(workspace: Workspace, name: StudyName, out: Path, market: Market) -> list[SensitivityRow]:
    """Run one study at the scale tiny under every variation that may affect it."""
    variations = [each for each in VARIATIONS if name in each.studies]
    profiles = {each.name: str(write_profile(each.profile(), out / "profiles")) for each in variations}
    tables = run_variants(workspace, small_study(name), str(out / "runs"), market, profiles)
    rows = []
    for quantity in QUANTITIES[name]:
        for each in variations:
            ours = quantity.comparison.compute(tables[each.name])
            found = "nothing to compare" if ours is None else ours.text
            rows.append(SensitivityRow(each.assumption, each.changed_to, quantity.text, found))
    return rows


# The assumptions that decide.

_MACHINE = find_profile("paper-machine-sender")
SENDERS = {
    "one per link": PAPER,
    "one per broker": find_profile(Model.BROKER_SENDER.profile),
    "one per machine": _MACHINE,
    "one per machine, 4 times slower": dataclasses.replace(_MACHINE, send_us=4 * _MACHINE.send_us),
}
SHORTEST = "shortest paths"
RACES = "races"
DECISIVE_QUANTITIES = (
    Quantity("IDR stable, compared with SPR", seconds_before((DYNAMIC,), (STATIC,), columns.BURST_OWN_STABLE_MS)),
    Quantity("adaptive stable, compared with SPR", seconds_before((ADAPTIVE,), (STATIC,), columns.BURST_OWN_STABLE_MS)),
    Quantity("delay of the burst, IDR compared with SPR",
             ratio(columns.BURST_OWN_DELAY_MS, (DYNAMIC,), (STATIC,), MORE)),
    Quantity("queues of target links, IDR compared with SPR",
             ratio(columns.BURST_TARGET_QUEUE_LENGTH, (DYNAMIC,), (STATIC,), MORE)),
    Quantity("delay, OctopiA compared with TID-S", ratio(columns.BURST_DELAY_MS, PAPER_OCTOPIA, (TID_STATIC,), MORE)),
    Quantity("delay of the burst, OctopiA compared with TID-S",
             ratio(columns.BURST_OWN_DELAY_MS, PAPER_OCTOPIA, (TID_STATIC,), MORE)),
    Quantity("OctopiA stable, compared with TID-S",
             seconds_before(PAPER_OCTOPIA, (TID_STATIC,), columns.BURST_OWN_STABLE_MS)),
    Quantity("delay, TID-D compared with TID-S", ratio(columns.BURST_DELAY_MS, (TID_DYNAMIC,), (TID_STATIC,), HIGHER)),
)  # fmt: skip


def decide(workspace: Workspace, out: Path, market: Market) -> list[DecisiveRow]:
    """Run the burst study at the scale tiny under all combinations of sender, trees and host broker."""
    study = _only(
        load_study(StudyName.BURST, Extent(Scale.TINY, models=(Model.LINKS,))),
        lambda run: Contender.of(run.algorithm, run.tid_copies) in (*PAPER_ALGORITHMS, ADAPTIVE),
    )
    folder, profiles = str(out / "runs"), {key: str(path) for key, path in _decisive_profiles(out).items()}
    by_name = {f"{sender}, {trees}": path for (sender, trees), path in profiles.items()}
    # Trees are TID's alone.
    steady = {name: path for name, path in by_name.items() if name.endswith(SHORTEST)}
    ours = run_variants(workspace, _only(study, lambda run: not run.algorithm.is_tid), folder, market, steady)
    # The copies of TID-D multiply where trees differ much, so that it is run with shortest paths only.
    races = {name: path for name, path in by_name.items() if name not in steady}
    static = Algorithm.TID_STATIC
    theirs = run_variants(workspace, _only(study, lambda run: run.algorithm.is_tid), folder, market, steady)
    theirs |= run_variants(workspace, _only(study, lambda run: run.algorithm is static), folder, market, races)
    rows = []
    for sender, trees in profiles:
        tables = tables_of([*ours[f"{sender}, {SHORTEST}"], *theirs[f"{sender}, {trees}"]])
        for host in study_hosts(study):
            rows += [
                DecisiveRow(sender, trees, host, each.text, _found(each, tables, host)) for each in DECISIVE_QUANTITIES
            ]
    return rows


def study_hosts(study: Study) -> list[HostKind]:
    """Return the kinds of host broker in a study."""
    return list(dict.fromkeys(point.host for point in study.points))


def _found(quantity: Quantity, tables: Tables, host: HostKind) -> str:
    ours = quantity.comparison.compute(tables.under(Model.LINKS, host))
    return "nothing to compare" if ours is None else ours.text


def _decisive_profiles(out: Path) -> dict[tuple[str, str], Path]:
    """Write a profile for each combination of sender and trees, and return the files."""
    race = find_profile(Model.RACE_TREES.profile)
    names = [field.name for field in dataclasses.fields(Profile) if field.name not in ("name", "description")]
    racing = {name: getattr(race, name) for name in names if getattr(race, name) != getattr(PAPER, name)}
    written = {}
    for sender, assumed in SENDERS.items():
        for trees, changes in ((SHORTEST, {}), (RACES, racing)):
            short = f"{sender.removeprefix('one per ').replace(', ', '-').replace(' ', '-')}-{trees.split()[0]}"
            profile = dataclasses.replace(assumed, name=short, **changes)
            written[sender, trees] = write_profile(profile, out / "profiles")
    return written
