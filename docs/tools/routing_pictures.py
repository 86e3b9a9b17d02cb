"""Draw the pictures of ``docs/routing.md`` from runs of the simulator, one SVG per case.

Clusters are rows and regions are columns. Every arrow is a copy that the simulated brokers sent, with its number in the
order of sending and its header. The same code gives the same bytes, and a test compares them with the committed files.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from octopia.broker.interface import Verdict
from octopia.ids import BrokerId
from octopia.scenario import CrashItem, Scenario, SubscribeItem, load_scenario
from octopia.settings import Algorithm
from octopia.simulator.record import Hop
from octopia.simulator.run import Run, run_scenario

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"

_COLUMN, _ROW = 290, 112
_LEFT, _TOP = 170, 100
_WIDTH, _HEIGHT = 930, 540
_RADIUS = 23
_BENDS = {1: 0, 2: 74, 3: 112}  # how far an iLink bends sideways, by the number of rows that it spans
_ALINK_LABEL = 132  # from the left end: clear of the bent iLinks at both ends

# The card has a background of its own, so it is readable on any page. The dark colours are for readers who prefer them.
_STYLE = """\
text{fill:var(--ink);font-size:14px;text-anchor:middle;dominant-baseline:central}
svg{--card:#ffffff;--band:#f1f5f9;--ink:#22303c;--faint:#5d6b78;--link:#9aa6b1;--copy:#1c5fb8;--label:#e6f0fc;\
--congested:#e5533d;--publisher:#1c5fb8;--subscriber:#bfe3c4;--broker:#ffffff;--dead:#d5dbe1}
@media(prefers-color-scheme:dark){svg{--card:#1b222b;--band:#242d38;--ink:#e6edf3;--faint:#a8b3bf;--link:#66727e;\
--copy:#6cb0ff;--label:#16365c;--congested:#e5533d;--publisher:#1f66c4;--subscriber:#2c6b3a;--broker:#303b48;\
--dead:#3a434d}}
.card{fill:var(--card)}.band{fill:var(--band)}.faint{fill:var(--faint)}
.link{fill:none;stroke:var(--link);stroke-width:1.5}.ilink{stroke-dasharray:5 4}
.congested{fill:none;stroke:var(--congested);stroke-width:9;stroke-opacity:.75}
.dead-link{stroke-dasharray:1 7;stroke-linecap:round}
.copy{fill:none;stroke:var(--copy);stroke-width:3}.tip{fill:var(--copy)}
.label{fill:var(--label);stroke:var(--copy)}.header{font-family:DejaVu Sans Mono,Consolas,monospace;font-size:13px}
.number{font-weight:bold;font-size:13px}
.broker{fill:var(--broker);stroke:var(--ink);stroke-width:1.3}
.publisher{fill:var(--publisher)}.on-publisher{fill:#ffffff;font-weight:bold}
.subscriber{fill:var(--subscriber)}.dead{fill:var(--dead)}.cross{stroke:var(--congested);stroke-width:5}
.left{text-anchor:start}.end{text-anchor:end}.title{font-weight:bold;font-size:16px}"""


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """A picture: the name of its file, its title, and the run that it shows."""

    name: str
    title: str
    example: str
    algorithm: Algorithm


PICTURES = (
    Picture("routing-static", "Static routing (Fig. 7b): every copy takes its direct link", "fig7b", Algorithm.STATIC),
    Picture("routing-case-1", "Dynamic, case I (Fig. 7b): a free iLink carries", "fig7b", Algorithm.DYNAMIC),
    Picture("routing-case-2", "Dynamic, case II (Fig. 7c): a free aLink carries", "fig7c", Algorithm.DYNAMIC),
    Picture("routing-case-3", "Dynamic, case III (Fig. 7d): everything is congested", "fig7d", Algorithm.DYNAMIC),
    Picture("routing-slow-alink", "Adaptive: around a congested aLink", "slow_alink", Algorithm.ADAPTIVE),
    Picture("routing-fig7d-adaptive", "Adaptive (Fig. 7d): one copy for three", "fig7d_adaptive", Algorithm.ADAPTIVE),
    Picture("routing-dead-broker", "Adaptive: around a dead broker", "dead_broker", Algorithm.ADAPTIVE),
)


def svg_of(picture: Picture) -> str:
    """Return the SVG of a picture."""
    scene = scene_of(picture)
    return "\n".join([*_opening(picture, scene), *scene.drawn(), *_legend(scene), "</svg>", ""])


def scene_of(picture: Picture) -> Scene:
    """Run the example of a picture and return what it shows."""
    scenario = load_scenario(ROOT / "examples" / f"{picture.example}.toml").with_algorithm(picture.algorithm)
    run = run_scenario(scenario, check=True)
    assert not run.complaints(), run.complaints()
    return Scene.of(scenario, run)


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """The contents of a picture; links are pairs of brokers, the lower one first."""

    scenario: Scenario
    hops: tuple[Hop, ...]
    congested: frozenset[tuple[BrokerId, BrokerId]]
    dead: frozenset[BrokerId]
    publisher: BrokerId
    subscribers: frozenset[BrokerId]

    @classmethod
    def of(cls, scenario: Scenario, run: Run) -> Scene:
        """Return the scene of a finished run."""
        clients = scenario.clients
        subscribers = {each.broker for each in clients if any(isinstance(item, SubscribeItem) for item in each.items)}
        return cls(
            scenario,
            tuple(hop for hop in run.recorder.hops if hop.publication == 0),
            frozenset(
                (min(ends), max(ends))
                for change in scenario.links
                if change.verdict is Verdict.CONGESTED
                for ends in change.directions
            ),
            frozenset(event.item.broker for event in scenario.events if isinstance(event.item, CrashItem)),
            clients[0].broker,
            frozenset(subscribers),
        )

    def drawn(self) -> Iterator[str]:
        """Yield the elements of the picture, from back to front."""
        scot = self.scenario.overlay.scot
        for link in self.congested:
            assert link in scot.alinks or link in scot.ilinks
        for link in (*scot.alinks, *scot.ilinks):
            yield from self._link(link)
        for hop in self.hops:
            yield _path(_curve(BrokerId.parse(hop.sender), BrokerId.parse(hop.receiver), _RADIUS, _RADIUS + 7), "copy")
            yield _tip(BrokerId.parse(hop.sender), BrokerId.parse(hop.receiver))
        for broker in scot.brokers:
            yield from self._broker(broker)
        for number, hop in enumerate(self.hops, 1):
            yield from _label(number, hop)

    def _link(self, link: tuple[BrokerId, BrokerId]) -> Iterator[str]:
        one, other = link
        curve = _curve(one, other)
        if link in self.congested:
            yield _path(curve, "congested")
        kind = " ilink" if one.region == other.region else ""
        yield _path(curve, f"link{kind}" + (" dead-link" if self.dead & {one, other} else ""))

    def _broker(self, broker: BrokerId) -> Iterator[str]:
        x, y = _at(broker)
        kind = on = ""
        if broker in self.dead:
            kind = " dead"
        elif broker == self.publisher:
            kind, on = " publisher", "on-publisher"
        elif broker in self.subscribers:
            kind = " subscriber"
        yield f'<circle class="broker{kind}" cx="{x}" cy="{y}" r="{_RADIUS}"/>'
        yield _text(x, y, str(broker), on)
        if broker in self.dead:
            yield _cross(x, y, 19)


def _opening(picture: Picture, scene: Scene) -> Iterator[str]:
    hops = ", ".join(map(str, scene.hops))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="DejaVu Sans, Verdana, Arial, sans-serif" role="img" aria-labelledby="t d">'
    )
    yield f'<title id="t">{escape(picture.title)}</title>'
    yield f'<desc id="d">Copies in the order of sending: {escape(hops)}.</desc>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="card" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>'
    yield _text(24, 28, f"{picture.title}; {len(scene.hops)} messages", "title left")
    for cluster in range(scene.scenario.overlay.scot.clusters):
        y = _TOP + cluster * _ROW
        yield f'<rect class="band" x="24" y="{y - 44}" width="{_WIDTH - 48}" height="88" rx="12"/>'
        yield _text(_WIDTH - 60, y, f"cluster {cluster}", "faint")


def _legend(scene: Scene) -> Iterator[str]:
    y = _HEIGHT - 30
    entries = [("publisher", 118), ("subscribers", 132), ("copy, its number and header", 250)]
    entries += [("congested", 120)] if scene.congested else []
    entries += [("dead broker", 130)] if scene.dead else []
    x = 40
    for name, width in entries:
        match name:
            case "publisher":
                yield f'<circle class="broker publisher" cx="{x}" cy="{y}" r="9"/>'
            case "subscribers":
                yield f'<circle class="broker subscriber" cx="{x}" cy="{y}" r="9"/>'
            case "congested":
                yield f'<path class="congested" d="M{x - 12} {y}h24"/>'
            case "dead broker":
                yield f'<circle class="broker dead" cx="{x}" cy="{y}" r="9"/>{_cross(x, y, 8)}'
            case _:
                yield f'<path class="copy" d="M{x - 12} {y}h24"/><path class="tip" d="M{x + 16} {y}l-10 -6v12z"/>'
        yield _text(x + 20, y, name, "left")
        x += width
    yield _text(_WIDTH - 34, y, "aLinks solid, iLinks dashed", "faint end")


# Geometry: a link is a cubic curve, given by its four points.

_Point = tuple[float, float]


def _at(broker: BrokerId) -> tuple[int, int]:
    return _LEFT + _COLUMN * (ord(broker.region) - ord("a")), _TOP + _ROW * broker.cluster


def _curve(start: BrokerId, end: BrokerId, trim_start: float = 0, trim_end: float = 0) -> list[_Point]:
    """Return the curve of a link from one broker to another, without the given lengths at its ends."""
    (x0, y0), (x3, y3) = _at(start), _at(end)
    bend = 0.0
    if start.region == end.region:
        low = min(start.cluster, end.cluster)
        # A cubic reaches three quarters of the way to its control points.
        bend = (1 if low % 2 else -1) * _BENDS[abs(start.cluster - end.cluster)] / 0.75
    along = 0.3
    points: list[_Point] = [
        (x0, y0),
        (x0 + along * (x3 - x0) + bend, y0 + along * (y3 - y0)),
        (x3 - along * (x3 - x0) + bend, y3 - along * (y3 - y0)),
        (x3, y3),
    ]
    return _part(points, _where(points, trim_start), 1 - _where(points[::-1], trim_end))


def _where(points: list[_Point], distance: float) -> float:
    """Return the parameter at which a curve leaves a circle around its start."""
    (x0, y0), step = points[0], 1 / 256
    at = 0.0
    while distance and (_point(points, at)[0] - x0) ** 2 + (_point(points, at)[1] - y0) ** 2 < distance**2:
        at += step
    return at


def _between(one: _Point, other: _Point, at: float) -> _Point:
    return one[0] + at * (other[0] - one[0]), one[1] + at * (other[1] - one[1])


def _split(points: list[_Point], at: float) -> tuple[list[_Point], list[_Point]]:
    """Split a curve in two (de Casteljau)."""
    a, b, c, d = points
    ab, bc, cd = _between(a, b, at), _between(b, c, at), _between(c, d, at)
    abc, bcd = _between(ab, bc, at), _between(bc, cd, at)
    middle = _between(abc, bcd, at)
    return [a, ab, abc, middle], [middle, bcd, cd, d]


def _point(points: list[_Point], at: float) -> _Point:
    return _split(points, at)[1][0]


def _part(points: list[_Point], start: float, end: float) -> list[_Point]:
    rest = _split(points, start)[1]
    return _split(rest, (end - start) / (1 - start))[0]


# Shapes.


def _path(points: list[_Point], kind: str) -> str:
    first, *others = (f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="{kind}" d="M{first}C{", ".join(others)}"/>'


def _tip(start: BrokerId, end: BrokerId) -> str:
    """Return the tip of an arrow: a triangle that touches the circle of the receiver."""
    curve = _curve(start, end, 0, _RADIUS + 1)
    x, y = curve[3]
    back = _curve(start, end, 0, _RADIUS + 13)[3]
    dx, dy = (back[0] - x) * 0.5, (back[1] - y) * 0.5
    one, other = (back[0] - dy, back[1] + dx), (back[0] + dy, back[1] - dx)
    corners = " ".join(f"{px:.1f},{py:.1f}" for px, py in ((x, y), one, other))
    return f'<polygon class="tip" points="{corners}"/>'


def _label(number: int, hop: Hop) -> Iterator[str]:
    """Draw the number and the header of a copy on its arrow."""
    start, end = BrokerId.parse(hop.sender), BrokerId.parse(hop.receiver)
    if start.region == end.region:
        # Of a bent iLink not the middle, where an aLink may cross, but between the first two rows.
        x, y = _point(_curve(start, end), 0.265 if abs(start.cluster - end.cluster) == 2 else 0.5)
    else:
        x, y = float(min(_at(start)[0], _at(end)[0]) + _ALINK_LABEL), float(_at(start)[1])
    lines = [hop.civ] if hop.civ else []
    lines += [f"{region}:{bits}" for region, bits in (hop.carries or {}).items()]
    wide = max((8 * len(line) for line in lines), default=-8)
    width, height = 28 + wide, 6 + 16 * max(1, len(lines))
    yield (
        f'<rect class="label" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width}" height="{height}" '
        'rx="6"/>'
    )
    yield _text(x - width / 2 + 10, y, str(number), "number")
    for row, line in enumerate(lines):
        yield _text(x - width / 2 + 21, y + 16 * (row - (len(lines) - 1) / 2), line, "header left")


def _cross(x: float, y: float, half: float) -> str:
    size = 2 * half
    return f'<path class="cross" d="M{x - half} {y - half}l{size} {size}m0 {-size}l{-size} {size}"/>'


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:g}" y="{y:g}">{escape(text)}</text>'


def main() -> int:
    """Write all pictures."""
    for picture in PICTURES:
        (IMAGES / f"{picture.name}.svg").write_text(svg_of(picture))
    return 0


if __name__ == "__main__":
    sys.exit(main())
