"""The pictures of the demo: the overlay, delays over time, shares after the outage, and messages by kind."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

from octopia.experiments.charts import INK, LOOKS, drawing, frame, save
from octopia.experiments.demo.outcome import Outcome, Side
from octopia.experiments.page import Picture
from octopia.overlay.diagrams import Callouts, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = "figures"
_SHADE = "#e6eaee"
_LEAST_S = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of a demo."""

    overlay: Picture
    delays: Picture
    shares: Picture
    messages: Picture


_BAR_INCHES = 0.14
"""The height of a bar whose number does not touch the next one."""


def draw_pictures(outcome: Outcome, out: Path) -> Pictures:
    """Draw all pictures as PNG and SVG; their addresses are relative to the demo's folder."""
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    with drawing():
        return Pictures(_overlay(outcome, out), _delays(outcome, out), _shares(outcome, out), _messages(outcome, out))


def _picture(name: str, title: str, note: str) -> Picture:
    return Picture(title, f"{FIGURES}/{name}.png", f"{FIGURES}/{name}.svg", note)


def _overlay(outcome: Outcome, out: Path) -> Picture:
    plan, scot = outcome.plan, outcome.plan.workload.scot()
    rate = f"{plan.link_rate:g}"
    callouts = Callouts(
        links=dict.fromkeys(outcome.links, f"{rate}/s"),
        links_are=f"slow: {rate} publications per second",
        brokers=[outcome.host],
        brokers_are=f"{outcome.host} gets the burst: {plan.burst_rate:g} publications per second",
        dead=[outcome.dead],
        dead_are=f"{outcome.dead} is killed later",
    )
    title = f"{len(scot.brokers)} brokers, two slow links"
    note = (
        f"Columns are regions, rows are clusters. The burst is published at {outcome.host}, and all clusters want it."
    )
    picture = _picture("overlay", title, note)
    for file in (picture.png, picture.svg):
        draw(scot, out / file, title=title, callouts=callouts)
    return picture


def _delays(outcome: Outcome, out: Path) -> Picture:
    picture = _picture(
        "delays",
        "Mean delay of deliveries",
        "The mean over all deliveries of the publications of each quarter of a second, before the broker is killed. "
        "The burst was published in the grey interval.",
    )
    figure, axes = frame("time of publication, since the start (s)", "mean delay, log scale")
    for side in outcome.sides:
        look, curve = LOOKS[side.run.algorithm], side.delays.curve
        axes.plot(curve.times_s, curve.means_s, color=look.colour, label=_label(side), linewidth=2.2)
    axes.axvspan(*outcome.plan.burst_s, color=_SHADE, linewidth=0, label="the burst", zorder=0)
    axes.set_xlim(left=0)
    _scale_delays(axes)
    save(figure, axes, picture.title, out / picture.png, out / picture.svg)
    return picture


def _shares(outcome: Outcome, out: Path) -> Picture:
    picture = _picture(
        "shares",
        f"Delivered after {outcome.dead} was killed",
        "The share of the deliveries that live subscribers were owed by live publishers.",
    )
    figure, axes = frame("delivered, % of what live subscribers were owed", "")
    for place, side in enumerate(outcome.sides):
        share = 100 * side.share_later
        axes.barh(place, share, 0.6, color=LOOKS[side.run.algorithm].colour)
        text = f"{in_percent(side.share_later)} ({side.later.count:,} of {side.owed_later:,})"
        axes.annotate(text, (share, place), (6, 0), textcoords="offset points", ha="left", va="center", color=INK)
    axes.set_yticks(range(len(outcome.sides)), [_label(side) for side in outcome.sides])
    axes.grid(False, axis="y")
    axes.set_xlim(0, 140)
    axes.set_xticks(range(0, 101, 20))
    axes.invert_yaxis()
    save(figure, axes, picture.title, out / picture.png, out / picture.svg)
    return picture


def in_percent(share: float) -> str:
    """Return a share as text, rounded down: only everything is 100%."""
    return f"{math.floor(share * 1000) / 10:g}%"


def _scale_delays(axes: Axes) -> None:
    """Label the axis in milliseconds and seconds; cut it off below a millisecond."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_yscale("log")
    axes.set_ylim(bottom=_LEAST_S)
    axes.yaxis.set_major_locator(LogLocator(subs=(1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(_in_units))


def _in_units(delay_s: float, _: int | None = None) -> str:
    return f"{delay_s:g} s" if delay_s >= 1 else f"{1000 * delay_s:g} ms"


def _label(side: Side) -> str:
    return f"{side.run.algorithm} routing"


def _messages(outcome: Outcome, out: Path) -> Picture:
    picture = _picture(
        "messages",
        "Messages between brokers",
        "In both parts. Dynamic routing uses other links, and hardly more of them: a copy over a fast link carries "
        "what is for a congested one, too. Adaptive routing takes longer ways. Its brokers also report to each other "
        "which links are slow or down (status), and which directions want a publication (civ set).",
    )
    sides = outcome.sides
    kinds = [kind for kind in sides[0].run.messages if any(side.run.messages.get(kind) for side in sides)]
    figure, axes = frame("messages, log scale", "")
    bars = len(kinds) * (len(sides) + 1)
    figure.set_figheight(max(figure.get_figheight(), 1.5 + _BAR_INCHES * bars))
    height = 0.8 / len(sides)
    for number, side in enumerate(sides):
        places = [place + (number - (len(sides) - 1) / 2) * height for place in range(len(kinds))]
        counts = [side.run.messages.get(kind, 0) for kind in kinds]
        axes.barh(places, counts, height * 0.92, color=LOOKS[side.run.algorithm].colour, label=_label(side))
        _write_counts(axes, places, counts)
    axes.set_yticks(range(len(kinds)), [kind.replace("_", " ") for kind in kinds])
    axes.grid(False, axis="y")
    axes.invert_yaxis()
    _scale_counts(axes, max(max(side.run.messages.values(), default=1) for side in sides))
    save(figure, axes, picture.title, out / picture.png, out / picture.svg)
    return picture


def _write_counts(axes: Axes, places: list[float], counts: list[int]) -> None:
    for place, count in zip(places, counts, strict=True):
        axes.annotate(f"{count:,}", (max(count, 1), place), (3, 0), textcoords="offset points", ha="left", va="center",
                      fontsize=8, color=INK)  # fmt: skip


def _scale_counts(axes: Axes, most: int) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_xscale("log")
    axes.set_xlim(left=1, right=3 * most)
    axes.xaxis.set_major_locator(LogLocator(subs=(1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
