"""The numbers of the paper's evaluation, with what computes ours, and what decides each of them.

PADRES is the paper's name for TID-based routing. SPR is our static and IDR our dynamic algorithm; TID-S and TID-D are
tid-static and tid-dynamic. The sentences are ours. Where the paper's words have several meanings, a claim has several
readings, and the first is the most literal one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from statistics import fmean

from octopia.experiments.paper import columns
from octopia.experiments.paper.columns import Column
from octopia.experiments.paper.comparisons import (
    HIGHER,
    MORE,
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
from octopia.experiments.paper.names import (
    DYNAMIC,
    PAPER_OCTOPIA,
    PAPER_TID,
    STATIC,
    TID_DYNAMIC,
    TID_DYNAMIC_PER_HOP,
    TID_STATIC,
    System,
)
from octopia.experiments.paper.rows import PublisherRow, Tables
from octopia.experiments.paper.verdicts import Claim, Measure

BROKERS = 56
"""The number of brokers of the evaluation overlay S_e (departure D1)."""

HARDLY = 0.02
"""The largest difference where the paper says that two numbers are nearly the same."""

_RATIO, _LEAD, _DURATION, _SHARE, _SHARES, _TREND, _EXACT = Measure
OCTOPIA, TID = System.OCTOPIA, System.TID
_SYSTEMS = (OCTOPIA, TID)
_SIZE = change("larger", "smaller")

_NOT_PRINTED = "It follows from the design and S_e, and must be met exactly; the paper does not print it."
_FLOOD = (
    "The number of hops: 1 against the depth of TID's trees. Where delays are a race, the ratio falls: a flood reaches "
    "a broker over the fastest of many paths, while OctopiA waits for the slowest of three messages."
)
_CONFIRMATIONS = "Confirmations, which the paper does not have, are not counted."
_TREES = (
    "The length of TID's trees: a subscription is stored and sent once per broker on the way to each of its publishers."
)
_SAME_CHARGE = (
    "Nothing: selecting a path without congestion is charged alike, and Fig. 16 has the time that the code takes."
)
_CODE = (
    "The code: ours in Python with compiled parts, by the clock of this machine; the paper measured PADRES, in Java."
)
_MATCHERS = (
    "The matcher: both systems have one index of distinct subscriptions. OctopiA stops at the first match for a link, "
    "TID needs every match. The paper says that PADRES matches at the edge only. " + _CODE
)
_LOOKUP = "TID's search reads all stored subscriptions, so the ratio grows with their number. " + _CODE
_SENDER = (
    "The sender. If every link has its own, the links from inner to edge brokers decide, which IDR cannot avoid. If a "
    "broker has one for all, SPR's host broker pays for every target link, and IDR's for fewer."
)
_SENDER_AND_TREES = _SENDER + " Longer trees make TID slower under any sender."
_INFERRED = "Our cost of sending was inferred from it, so it is no result."
_CHOICE = "How much TID's trees differ: TID-D can only change to a tree that exists at the congested broker."
_COPIES = (
    "The copies per link. PADRES keeps one per next hop, which is faster and loses deliveries; one per tree loses none."
)
_BYSTANDERS = (
    "The publications that are counted: nearly all are ordinary ones, most of which meet the burst only by chance."
)


def _each(tables: Tables, column: Column[PublisherRow], system: System) -> list[float]:
    """Return the number per advertisement: all values that occur in runs."""
    rows = [row for row in tables.publishers if row.system == system and row.advertisements]
    return sorted({(column.value(row) or 0.0) / row.advertisements for row in rows})


def _exactly(values: Iterable[float]) -> str:
    """Return one value as text, or the range if runs differ."""
    shown = sorted({float(f"{value:.6g}") for value in values})
    return f"{shown[0]:g}" if len(shown) == 1 else f"{shown[0]:g} to {shown[-1]:g}"


def _messages_each(tables: Tables) -> Ours | None:
    ours, theirs = (_each(tables, columns.ADVERTISEMENT_MESSAGES, system) for system in (OCTOPIA, TID))
    if not ours or not theirs:
        return None
    return Ours(f"{_exactly(ours)} against {_exactly(theirs)}", fmean(theirs) / fmean(ours), "per advertisement")


def _entries_each(tables: Tables) -> Ours | None:
    ours, theirs = (
        [BROKERS * value for value in _each(tables, columns.ADVERTISEMENT_TABLE_SIZE, system)]
        for system in (OCTOPIA, TID)
    )
    if not ours or not theirs:
        return None
    share = fmean(ours) / fmean(theirs)
    entries = f"{_exactly(ours)} against {_exactly(theirs)}"
    return Ours(f"{entries}: {percent(share - 1)}", share, "entries in all tables, per advertisement")


def _duplicates(tables: Tables) -> Ours | None:
    found = [row.duplicate_share for row in tables.publishers if row.system == TID]
    return Ours(f"{percent(fmean(found))} of messages", fmean(found)) if found else None


def _read(claim: Claim, reading: str, *others: tuple[str, Comparison]) -> tuple[Claim, ...]:
    """Return a claim with its first reading, and the same claim with others."""
    first = dataclasses.replace(claim, reading=reading)
    rest = [
        dataclasses.replace(claim, reading=other, comparison=comparison, is_other_reading=True)
        for other, comparison in others
    ]
    return first, *rest


_BY_DESIGN = (
    Claim("Design", "By design, an advertisement of OctopiA crosses 3 links of S_e and one of TID 217.",
          "3 against 217", 217 / 3, _EXACT, Comparison(PublisherRow, _messages_each, _SYSTEMS), _NOT_PRINTED),
    Claim("Design", "By design, an advertisement is stored 4 times by OctopiA and 56 times by TID.",
          "4 against 56: -92.9%", 4 / 56, _EXACT, Comparison(PublisherRow, _entries_each, _SYSTEMS), _NOT_PRINTED),
)  # fmt: skip

_PUBLISHERS = (
    Claim("Fig. 7", "Advertisements take longer to reach all brokers with TID than with OctopiA.",
          "266% higher", 3.66, _RATIO, ratio(columns.ADVERTISEMENT_DELAY_MS, (TID,), (OCTOPIA,), HIGHER), _FLOOD),
    Claim("Fig. 8", "OctopiA's CLTs are smaller than TID's SRTs.",
          "93% smaller", 0.07, _RATIO, ratio(columns.ADVERTISEMENT_TABLE_SIZE, (OCTOPIA,), (TID,), _SIZE),
          "The design: 4 of 56 brokers store an advertisement."),
    Claim("Fig. 9", "TID sends many times the advertisement messages of OctopiA.",
          "88.5 times", 88.5, _RATIO, ratio(columns.ADVERTISEMENT_MESSAGES, (TID,), (OCTOPIA,), times),
          "The design: 217 / 3 = 72.3. The paper counts more, without saying what. " + _CONFIRMATIONS),
    Claim("Fig. 9", "Most advertisement messages of TID are duplicates that are discarded.",
          "up to 80% of messages", 0.8, _SHARE, Comparison(PublisherRow, _duplicates, (TID,)),
          "The overlay: 162 of 217 messages, all but one per other broker. The paper cites another work."),
)  # fmt: skip

_SUBSCRIBERS = (
    *_read(
        Claim("Fig. 11", "TID's PRTs are smaller than OctopiA's.",
              "33% smaller", 0.67, _RATIO, ratio(columns.PRT_SIZE, (TID,), (OCTOPIA,), _SIZE),
              _TREES + " Entries are as many as messages plus one per tree, so this and Fig. 12 hold together only "
              "if distinct subscriptions are counted."),
        "entries, one per tree",
        ("distinct subscriptions", ratio(columns.PRT_SUBSCRIPTIONS, (TID,), (OCTOPIA,), _SIZE)),
    ),
    Claim("Fig. 12", "OctopiA sends more subscription messages than TID.",
          "32.5% more", 1.325, _RATIO,
          ratio(columns.SUBSCRIPTION_MESSAGES, (OCTOPIA,), (TID,), MORE), _TREES + " " + _CONFIRMATIONS),
    Claim("Fig. 10", "Subscriptions still take less time to spread with OctopiA.",
          "34% less", 0.66, _RATIO, ratio(columns.SUBSCRIPTION_DELAY_MS, (OCTOPIA,), (TID,), MORE),
          "The length of TID's trees, since a subscription climbs them; the paper credits smaller tables."),
)  # fmt: skip

_DELIVERY = (
    Claim("Fig. 13", "Publications arrive sooner with OctopiA than with TID.",
          "25% less", 0.75, _RATIO,
          ratio(columns.PUBLICATION_DELAY_MS, (STATIC,), (TID_STATIC,), MORE),
          "The length of TID's trees: the paper's longer paths exist only where floods race."),
    Claim("Fig. 13", "On the same paths, SPR is a little faster than IDR.",
          "0.8% less", 0.992, _RATIO, ratio(columns.PUBLICATION_DELAY_MS, (STATIC,), (DYNAMIC,), MORE),
          _SAME_CHARGE, at_most=HARDLY),
    Claim("Fig. 13", "On the same paths, TID-S is a little faster than TID-D.",
          "0.6% less", 0.994, _RATIO, ratio(columns.PUBLICATION_DELAY_MS, (TID_STATIC,), (TID_DYNAMIC,), MORE),
          _SAME_CHARGE, at_most=HARDLY),
    Claim("Fig. 14", "Finding the subscriptions that match takes a broker longer with OctopiA.",
          "11% higher", 1.11, _RATIO, ratio(columns.MATCH_US, PAPER_OCTOPIA, PAPER_TID, HIGHER), _MATCHERS),
    Claim("Fig. 14", "The difference in matching shrinks with more subscribers.",
          "shrinks", 0.0, _TREND, shrinking(columns.MATCH_US, PAPER_OCTOPIA, PAPER_TID), _MATCHERS),
    Claim("Fig. 15", "OctopiA sends fewer publication messages than TID.",
          "4.5% fewer", 0.955, _RATIO,
          ratio(columns.PUBLICATION_MESSAGES, (STATIC,), (TID_STATIC,), change("more", "fewer")),
          "The length of TID's trees, and how many brokers want a publication: if all do, any tree has 55 links."),
    Claim("Fig. 15", "The difference in publication messages shrinks with more subscribers.",
          "shrinks", 0.0, _TREND, shrinking(columns.PUBLICATION_MESSAGES, (TID_STATIC,), (STATIC,)),
          "How many brokers want a publication: with 10,000 subscribers almost all do."),
    Claim("Fig. 16", "Selecting paths takes TID-D far longer than IDR.",
          "1230% higher", 13.3, _RATIO, ratio(columns.PATH_SELECTION_US, (TID_DYNAMIC,), (DYNAMIC,), HIGHER), _LOOKUP),
    Claim("Fig. 16", "Selecting paths takes TID-D far longer than TID-S.",
          "600% higher", 7.0, _RATIO,
          ratio(columns.PATH_SELECTION_US, (TID_DYNAMIC,), (TID_STATIC,), HIGHER), _LOOKUP),
    Claim("Fig. 16", "Selecting paths takes IDR a little longer than SPR.",
          "7% higher", 1.07, _RATIO, ratio(columns.PATH_SELECTION_US, (DYNAMIC,), (STATIC,), HIGHER), _CODE),
)  # fmt: skip

_ALL = "all deliveries"
_OWN = "deliveries of the burst"
_GROUPS = "all deliveries, in groups"

_BURSTS = (
    *_read(
        Claim("Figs. 17-20", "After a burst, IDR is stable before SPR.",
              "35 s before", 35.0, _LEAD, seconds_before((DYNAMIC,), (STATIC,)), _SENDER),
        _GROUPS, (_OWN, seconds_before((DYNAMIC,), (STATIC,), columns.BURST_OWN_STABLE_MS)),
    ),
    Claim("Figs. 17-20", "At first, the maximum delay of IDR and SPR is the same.",
          "157 s", 157.0, _DURATION, same_maximum_s(DYNAMIC, STATIC), _INFERRED, is_assumed=True),
    Claim("Figs. 17-20", "With IDR, queues must get shorter (the ratio in Eq. 3 below 1) for a while before delays are "
          "normal again.",
          "60 s", 60.0, _DURATION, shrinking_s(DYNAMIC),
          "The size of the burst and the spare capacity of the links. Ours is the time in which the longest queue was "
          "getting shorter before the run was stable."),
    Claim("Figs. 17-20", "IDR sends hardly more messages than SPR.",
          "0.04% more", 1.0004, _RATIO, ratio(columns.BURST_MESSAGES, (DYNAMIC,), (STATIC,), MORE),
          "The links that congest: a copy that carries a CIV replaces others, and needs as many messages.",
          at_most=HARDLY),
    *_read(
        Claim("Figs. 17-20", "The queues of target links are shorter with IDR than with SPR.",
              "32% less", 0.68, _RATIO, ratio(columns.BURST_TARGET_QUEUE_LENGTH, (DYNAMIC,), (STATIC,), MORE),
              _SENDER),
        "target links", ("all links", ratio(columns.BURST_QUEUE_LENGTH, (DYNAMIC,), (STATIC,), MORE)),
    ),
    *_read(
        Claim("Figs. 17-20", "More publications arrive within one second with IDR than with SPR.",
              "51% against 48%", 0.51 / 0.48, _SHARES,
              ratio(columns.BURST_PUBLICATIONS_BELOW_1S, (DYNAMIC,), (STATIC,), shares), _BYSTANDERS,
              shares=(0.51, 0.48)),
        "publications", ("deliveries", ratio(columns.BURST_SHARE_BELOW_1S, (DYNAMIC,), (STATIC,), shares)),
        ("publications of the burst", ratio(columns.BURST_OWN_PUBLICATIONS_BELOW_1S, (DYNAMIC,), (STATIC,), shares)),
    ),
    Claim("Figs. 17-20", "TID-S has the lower delay in most runs.",
          "65% of runs", 0.65, _SHARE, share_of_runs(is_less, TID_STATIC, TID_DYNAMIC), _CHOICE),
    Claim("Figs. 17-20", "TID-D has the lower delay in some runs.",
          "25% of runs", 0.25, _SHARE, share_of_runs(is_less, TID_DYNAMIC, TID_STATIC), _CHOICE),
    Claim("Figs. 17-20", "TID-S and TID-D perform the same in few runs.",
          "10% of runs", 0.1, _SHARE, share_of_runs(is_same, TID_STATIC, TID_DYNAMIC), _CHOICE),
    *_read(
        Claim("Figs. 17-20", "In bursts, publications take longer with TID-D than with TID-S.",
              "18% higher", 1.18, _RATIO,
              ratio(columns.BURST_DELAY_MS, (TID_DYNAMIC,), (TID_STATIC,), HIGHER), _CHOICE + " " + _COPIES),
        _ALL, (_OWN, ratio(columns.BURST_OWN_DELAY_MS, (TID_DYNAMIC,), (TID_STATIC,), HIGHER)),
        ("all deliveries, TID-D with one copy per hop",
         ratio(columns.BURST_DELAY_MS, (TID_DYNAMIC_PER_HOP,), (TID_STATIC,), HIGHER)),
    ),
    *_read(
        Claim("Figs. 17-20", "In bursts, publications take less time with OctopiA than with TID.",
              "54% less", 0.46, _RATIO, ratio(columns.BURST_DELAY_MS, PAPER_OCTOPIA, PAPER_TID, MORE),
              _SENDER_AND_TREES),
        _ALL, (_OWN, ratio(columns.BURST_OWN_DELAY_MS, PAPER_OCTOPIA, PAPER_TID, MORE)),
        ("all deliveries, OctopiA against TID-S", ratio(columns.BURST_DELAY_MS, PAPER_OCTOPIA, (TID_STATIC,), MORE)),
    ),
    *_read(
        Claim("Figs. 17-20", "After a burst, TID-S is stable before TID-D.",
              "15 s before", 15.0, _LEAD, seconds_before((TID_STATIC,), (TID_DYNAMIC,)), _CHOICE + " " + _COPIES),
        _GROUPS, ("all deliveries, in groups, TID-D with one copy per hop",
                  seconds_before((TID_STATIC,), (TID_DYNAMIC_PER_HOP,))),
    ),
    *_read(
        Claim("Figs. 17-20", "After a burst, OctopiA is stable long before TID.",
              "200 s before", 200.0, _LEAD, seconds_before(PAPER_OCTOPIA, PAPER_TID), _SENDER_AND_TREES),
        _GROUPS, (_OWN, seconds_before(PAPER_OCTOPIA, PAPER_TID, columns.BURST_OWN_STABLE_MS)),
        ("all deliveries, in groups, OctopiA against TID-S", seconds_before(PAPER_OCTOPIA, (TID_STATIC,))),
    ),
)  # fmt: skip

CLAIMS: tuple[Claim, ...] = (*_BY_DESIGN, *_PUBLISHERS, *_SUBSCRIBERS, *_DELIVERY, *_BURSTS)
