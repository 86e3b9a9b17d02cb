"""The numbers of the paper's evaluation, with what computes ours, and why ours may differ where that is known.

PADRES is the paper's name for TID-based routing. SPR is our static and IDR our dynamic algorithm; TID-S and TID-D are
tid-static and tid-dynamic. The sentences are ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from octopia.experiments.paper import columns
from octopia.experiments.paper.columns import Column
from octopia.experiments.paper.comparisons import (
    Comparison,
    Ours,
    change,
    is_less,
    is_same,
    percent,
    ratio,
    same_maximum_s,
    seconds_before,
    share_of_runs,
    shares,
    shrinking,
    shrinking_s,
    times,
)
from octopia.experiments.paper.names import ALGORITHMS, System
from octopia.experiments.paper.rows import PublisherRow, Tables
from octopia.experiments.paper.verdicts import Claim, Measure

BROKERS = 56
"""The number of brokers of the evaluation overlay S_e (departure D1)."""

HARDLY = 0.02
"""The largest difference where the paper says that two numbers are nearly the same."""

_RATIO, _LEAD, _DURATION, _SHARE, _TREND, _EXACT = Measure
OCTOPIA, TID = System
STATIC, DYNAMIC, TID_STATIC, TID_DYNAMIC = ALGORITHMS
_OCTOPIA_BOTH = (STATIC, DYNAMIC)
_TID_BOTH = (TID_STATIC, TID_DYNAMIC)
_HIGHER = change("higher", "lower")
_MORE = change("more", "less")
_SIZE = change("larger", "smaller")

_COSTS = "Virtual time: our costs of links and brokers are assumed, the paper's are those of its machines."
_WORKLOAD = (
    "How far TID sends a subscription depends on how many advertisements it intersects and on where clients are. The "
    "paper's workload is not published."
)
_PATHS = (
    "The paper says that the paths of TID are longer. Here floods race over links with similar delays, so that its "
    "trees are nearly shortest-path trees."
)
_MACHINE = "Our code, by the clock of this machine; the paper measured PADRES, in Java."
_MATCHING = (
    "Ours is the time at one of the brokers that a publication visits. All of them match, with TID as well; the paper "
    "says that PADRES matches only at the host brokers of interested subscribers. " + _MACHINE
)
_CAPACITY = (
    "Depends on the capacity of links and brokers. The cost of sending is inferred from the paper's 157 s, the rest is "
    "assumed."
)
_FEWER_COPIES = (
    "In our model links are the bottleneck, and the trees of TID put fewer copies on the links around the burst's host "
    "broker. "
)
_CHOICE = (
    "TID can only choose where trees differ, and trees differ where delays differ between floods: without jitter both "
    "take the same paths."
)
_NOT_PRINTED = "Not printed in the paper. It follows from the design and S_e, and must be met exactly."
_SAME_CHARGE = (
    "In virtual time, selecting a path without congestion costs both the same, so that no difference can show. Fig. 16 "
    "has the time that the code takes."
)
_CONFIRMATIONS = (
    "Confirmations to clients, which the paper does not have, are not counted; they are in the CSV tables. "
)
_MATCHERS = (
    "In both systems a broker has one index of all subscriptions that it stores. OctopiA is done with a link at the "
    "first match. TID needs every subscription that matches, and then those bound to the publication's tree. "
)
_LOOKUP = "TID's lookup scans all stored subscriptions, so that the ratio grows with their number. " + _MACHINE


def _each(tables: Tables, column: Column[PublisherRow], system: System) -> list[float]:
    """Return the number per advertisement: all values that occur in runs."""
    rows = [row for row in tables.publishers if row.system == system and row.advertisements]
    return sorted({(column.value(row) or 0.0) / row.advertisements for row in rows})


def _exactly(values: Iterable[float]) -> str:
    """Return one value as text, or the range if runs differ."""
    shown = sorted({float(f"{value:.6g}") for value in values})
    return f"{shown[0]:g}" if len(shown) == 1 else f"{shown[0]:g} to {shown[-1]:g}"


def _messages_each(tables: Tables) -> Ours | None:
    ours, theirs = (_each(tables, columns.ADVERTISEMENT_MESSAGES, system) for system in System)
    if not ours or not theirs:
        return None
    return Ours(f"{_exactly(ours)} against {_exactly(theirs)}", fmean(theirs) / fmean(ours), "per advertisement")


def _entries_each(tables: Tables) -> Ours | None:
    ours, theirs = (
        [BROKERS * value for value in _each(tables, columns.ADVERTISEMENT_TABLE_SIZE, system)] for system in System
    )
    if not ours or not theirs:
        return None
    share = fmean(ours) / fmean(theirs)
    entries = f"{_exactly(ours)} against {_exactly(theirs)}"
    return Ours(f"{entries}: {percent(share - 1)}", share, "entries in all tables, per advertisement")


def _duplicates(tables: Tables) -> Ours | None:
    found = [row.duplicate_share for row in tables.publishers if row.system == TID]
    return Ours(f"{percent(fmean(found))} of messages", fmean(found)) if found else None


_BY_DESIGN = (
    Claim("Design", "By design, an advertisement of OctopiA crosses 3 links of S_e and one of TID 217.",
          "3 against 217", 217 / 3, _EXACT, Comparison(PublisherRow, _messages_each), _NOT_PRINTED),
    Claim("Design", "By design, an advertisement is stored 4 times by OctopiA and 56 times by TID.",
          "4 against 56: -92.9%", 4 / 56, _EXACT, Comparison(PublisherRow, _entries_each), _NOT_PRINTED),
)  # fmt: skip

_PUBLISHERS = (
    Claim("Fig. 7", "Advertisements take longer to reach all brokers with TID than with OctopiA.",
          "266% higher", 3.66, _RATIO, ratio(columns.ADVERTISEMENT_DELAY_MS, (TID,), (OCTOPIA,), _HIGHER),
          "By links alone it is 4 to 6 to the farthest broker, against 1. " + _COSTS),
    Claim("Fig. 8", "OctopiA's CLTs are smaller than TID's SRTs.",
          "93% smaller", 0.07, _RATIO, ratio(columns.ADVERTISEMENT_TABLE_SIZE, (OCTOPIA,), (TID,), _SIZE)),
    Claim("Fig. 9", "TID sends many times the advertisement messages of OctopiA.",
          "88.5 times", 88.5, _RATIO, ratio(columns.ADVERTISEMENT_MESSAGES, (TID,), (OCTOPIA,), times),
          "217 / 3 = 72.3 follows from the design of S_e. The paper counts more, without saying what. "
          + _CONFIRMATIONS),
    Claim("Fig. 9", "Most advertisement messages of TID are duplicates that are discarded.",
          "up to 80% of messages", 0.8, _SHARE, Comparison(PublisherRow, _duplicates),
          "The paper cites another work. On S_e it is 162 of 217 messages, 74.7%: all but one per other broker."),
)  # fmt: skip

_SUBSCRIBERS = (
    Claim("Fig. 11", "TID's PRTs are smaller than OctopiA's.",
          "33% smaller", 0.67, _RATIO, ratio(columns.PRT_SIZE, (TID,), (OCTOPIA,), _SIZE), _WORKLOAD),
    Claim("Fig. 12", "OctopiA sends more subscription messages than TID.",
          "32.5% more", 1.325, _RATIO,
          ratio(columns.SUBSCRIPTION_MESSAGES, (OCTOPIA,), (TID,), _MORE), _CONFIRMATIONS + _WORKLOAD),
    Claim("Fig. 10", "Subscriptions still take less time to spread with OctopiA.",
          "34% less", 0.66, _RATIO, ratio(columns.SUBSCRIPTION_DELAY_MS, (OCTOPIA,), (TID,), _MORE),
          "The paper credits faster matching with smaller tables. " + _COSTS),
)  # fmt: skip

_DELIVERY = (
    Claim("Fig. 13", "Publications arrive sooner with OctopiA than with TID.",
          "25% less", 0.75, _RATIO,
          ratio(columns.PUBLICATION_DELAY_MS, _OCTOPIA_BOTH, _TID_BOTH, _MORE), _PATHS + " " + _COSTS),
    Claim("Fig. 13", "On the same paths, SPR is a little faster than IDR.",
          "0.8% less", 0.992, _RATIO, ratio(columns.PUBLICATION_DELAY_MS, (STATIC,), (DYNAMIC,), _MORE),
          _SAME_CHARGE, at_most=HARDLY),
    Claim("Fig. 13", "On the same paths, TID-S is a little faster than TID-D.",
          "0.6% less", 0.994, _RATIO, ratio(columns.PUBLICATION_DELAY_MS, (TID_STATIC,), (TID_DYNAMIC,), _MORE),
          _SAME_CHARGE, at_most=HARDLY),
    Claim("Fig. 14", "Finding the subscriptions that match takes a broker longer with OctopiA.",
          "11% higher", 1.11, _RATIO,
          ratio(columns.MATCH_US, _OCTOPIA_BOTH, _TID_BOTH, _HIGHER), _MATCHERS + _MATCHING),
    Claim("Fig. 14", "The difference in matching shrinks with more subscribers.",
          "shrinks", 0.0, _TREND, shrinking(columns.MATCH_US, _OCTOPIA_BOTH, _TID_BOTH), _MATCHERS + _MATCHING),
    Claim("Fig. 15", "OctopiA sends fewer publication messages than TID.",
          "4.5% fewer", 0.955, _RATIO,
          ratio(columns.PUBLICATION_MESSAGES, _OCTOPIA_BOTH, _TID_BOTH, change("more", "fewer")), _PATHS),
    Claim("Fig. 15", "The difference in publication messages shrinks with more subscribers.",
          "shrinks", 0.0, _TREND, shrinking(columns.PUBLICATION_MESSAGES, _TID_BOTH, _OCTOPIA_BOTH), _PATHS),
    Claim("Fig. 16", "Selecting paths takes TID-D far longer than IDR.",
          "1230% higher", 13.3, _RATIO, ratio(columns.PATH_SELECTION_US, (TID_DYNAMIC,), (DYNAMIC,), _HIGHER), _LOOKUP),
    Claim("Fig. 16", "Selecting paths takes TID-D far longer than TID-S.",
          "600% higher", 7.0, _RATIO,
          ratio(columns.PATH_SELECTION_US, (TID_DYNAMIC,), (TID_STATIC,), _HIGHER), _LOOKUP),
    Claim("Fig. 16", "Selecting paths takes IDR a little longer than SPR.",
          "7% higher", 1.07, _RATIO, ratio(columns.PATH_SELECTION_US, (DYNAMIC,), (STATIC,), _HIGHER), _MACHINE),
)  # fmt: skip

_BURSTS = (
    Claim("Figs. 17-20", "After a burst, IDR is stable before SPR.",
          "35 s before", 35.0, _LEAD, seconds_before((DYNAMIC,), (STATIC,)), _CAPACITY),
    Claim("Figs. 17-20", "At first, the maximum delay of IDR and SPR is the same.",
          "157 s", 157.0, _DURATION, same_maximum_s(DYNAMIC, STATIC), _CAPACITY, is_assumed=True),
    Claim("Figs. 17-20", "With IDR, queues must get shorter (CE below 1) for a while before delays are normal again.",
          "60 s", 60.0, _DURATION, shrinking_s(DYNAMIC),
          "Ours is the time in which the longest queue was getting shorter before the run was stable. " + _CAPACITY),
    Claim("Figs. 17-20", "IDR sends hardly more messages than SPR.",
          "0.04% more", 1.0004, _RATIO, ratio(columns.BURST_MESSAGES, (DYNAMIC,), (STATIC,), _MORE),
          "Which links congest, and so how often IDR goes around them, depends on the cost model.", at_most=HARDLY),
    Claim("Figs. 17-20", "The queues of target links are shorter with IDR than with SPR.",
          "32% less", 0.68, _RATIO, ratio(columns.BURST_QUEUE_LENGTH, (DYNAMIC,), (STATIC,), _MORE), _CAPACITY),
    Claim("Figs. 17-20", "More publications arrive within one second with IDR than with SPR.",
          "51% against 48%", 51 / 48, _RATIO,
          ratio(columns.BURST_SHARE_BELOW_1S, (DYNAMIC,), (STATIC,), shares), _CAPACITY),
    Claim("Figs. 17-20", "TID-S has the lower delay in most runs.",
          "65% of runs", 0.65, _SHARE, share_of_runs(is_less, TID_STATIC, TID_DYNAMIC), _CHOICE),
    Claim("Figs. 17-20", "TID-D has the lower delay in some runs.",
          "25% of runs", 0.25, _SHARE, share_of_runs(is_less, TID_DYNAMIC, TID_STATIC), _CHOICE),
    Claim("Figs. 17-20", "TID-S and TID-D perform the same in few runs.",
          "10% of runs", 0.1, _SHARE, share_of_runs(is_same, TID_STATIC, TID_DYNAMIC), _CHOICE),
    Claim("Figs. 17-20", "In bursts, publications take longer with TID-D than with TID-S.",
          "18% higher", 1.18, _RATIO, ratio(columns.BURST_DELAY_MS, (TID_DYNAMIC,), (TID_STATIC,), _HIGHER), _CHOICE),
    Claim("Figs. 17-20", "In bursts, publications take less time with OctopiA than with TID.",
          "54% less", 0.46, _RATIO, ratio(columns.BURST_DELAY_MS, _OCTOPIA_BOTH, _TID_BOTH, _MORE),
          _FEWER_COPIES + _CAPACITY),
    Claim("Figs. 17-20", "After a burst, TID-S is stable before TID-D.",
          "15 s before", 15.0, _LEAD, seconds_before((TID_STATIC,), (TID_DYNAMIC,)), _CHOICE),
    Claim("Figs. 17-20", "After a burst, OctopiA is stable long before TID.",
          "200 s before", 200.0, _LEAD, seconds_before(_OCTOPIA_BOTH, _TID_BOTH), _FEWER_COPIES + _CAPACITY),
)  # fmt: skip

CLAIMS: tuple[Claim, ...] = (*_BY_DESIGN, *_PUBLISHERS, *_SUBSCRIBERS, *_DELIVERY, *_BURSTS)
