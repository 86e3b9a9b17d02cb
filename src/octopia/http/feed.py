"""The live feed: the messages with which a page draws an overlay, and changes it.

A listener gets a ``hello`` with the shape of the overlay, a whole ``tick``, and then ticks with the changes since the
one before. Counters are cumulative, so a listener that misses a tick misses no publication. An ``event`` reports a
change that people should notice. ``docs/feed.schema.json`` has the exact form of every message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from octopia.http.meter import POINT_MS, Meter, Scene
from octopia.http.snapshot import NOT_RUNNING, Snapshot
from octopia.http.story import CONGESTED_SHARE, Story, tell
from octopia.overlay.files import Overlay

VERSION = 1
EVERY_MS = 500
VERBS = ("throttle", "lift", "cut", "heal", "route")
"""The verbs of ``do``."""
CALM_MS = 3_000.0
"""The time without congestion after which a link is reported as free again."""
MOST_EVENTS = 4
"""The number of events of one kind in a tick; more of them become one."""

_LINK_FIELDS = ("sent", "rerouted", "congested_ms", "dropped", "queue", "up", "open", "cut", "rate", "delay_ms")
_BROKER_FIELDS = ("clients", "published", "delivered", "rerouted", "routing", "ready", "stranded")

_encode = msgspec.json.Encoder().encode


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """A change that people should notice, at a link (``b.3>b.0``) or at a broker."""

    kind: str
    text: str
    link: str = ""
    broker: str = ""

    def to_json(self, at_ms: float) -> dict[str, Any]:
        """Return the event as the feed has it."""
        where = {name: value for name, value in (("link", self.link), ("broker", self.broker)) if value}
        return {"type": "event", "t": round(at_ms), "kind": self.kind, **where, "text": self.text}


class Feed:
    """The messages for all listeners of a port."""

    def __init__(self, overlay: Overlay, brokers: Sequence[str]):
        self._overlay = overlay
        self._brokers = tuple(brokers)
        self._meter = Meter()
        self._known: dict[str, dict[str, dict[str, Any]]] = {"brokers": {}, "links": {}}
        self._watcher = Watcher()
        self._tick: dict[str, Any] = {}
        self._choices: list[str] = []

    def hello(self, *, may_command: bool) -> bytes:
        """Return the greeting of a listener, with the commands that it may send."""
        scot = self._overlay.scot
        links = [[str(one), str(other), str(scot.link_kind(one, other))] for one, other in (*scot.alinks, *scot.ilinks)]
        overlay = {
            "name": self._overlay.name,
            "regions": list(scot.tree.regions),
            "tree": [list(edge) for edge in scot.tree.edges],
            "clusters": scot.clusters,
            "brokers": [str(broker) for broker in scot.brokers],
            "shown": list(self._brokers),
            "links": links,
            "algorithm": str(self._overlay.routing.algorithm),
            "choices": self._choices,
        }
        can = [verb for verb in VERBS if verb != "route" or len(self._choices) > 1] if may_command else []
        if self._overlay.routing.algorithm.is_tid:
            can = [verb for verb in can if verb not in ("cut", "heal")]
        return _encode({"type": "hello", "v": VERSION, "every_ms": EVERY_MS, "can": can, "overlay": overlay})

    def add(self, snapshot: Snapshot) -> list[bytes]:
        """Take a snapshot, and return the messages for all listeners: events, then a tick."""
        self._meter.add(snapshot)
        missing = [broker for broker in self._brokers if broker not in snapshot.reports]
        scene = self._meter.scene(missing)
        story = tell(scene)
        state = {"brokers": _brokers(snapshot, self._brokers), "links": _links(snapshot, story)}
        self._choices = next((report["algorithms"] for report in snapshot.reports.values()), self._choices)
        delays = {"minute": self._meter.delays().to_json(), "recent": self._meter.delays(POINT_MS).to_json()}
        self._tick = {
            "type": "tick",
            "t": round(snapshot.at_ms),
            "delays": delays,
            "story": {"text": story.text, "congested": story.congested, "carriers": story.carriers},
        }
        changed = {part: _changes(self._known[part], now) for part, now in state.items()}
        self._known = state
        events = self._watcher.look(snapshot, scene, story)
        messages = [_encode(each.to_json(snapshot.at_ms)) for each in events]
        return [*messages, _encode({**self._tick, **changed})]

    def whole_tick(self) -> bytes:
        """Return a tick with the whole state, for a new listener or one that has missed some."""
        curve = [list(point) for point in self._meter.curve()]
        return _encode({**self._tick, **self._known, "whole": True, "curve": curve})


def done(ref: Any, problem: str = "") -> bytes:
    """Return the answer to a command."""
    return _encode({"type": "done", "ref": ref, "ok": not problem, **({"problem": problem} if problem else {})})


def _brokers(snapshot: Snapshot, brokers: Sequence[str]) -> dict[str, dict[str, Any]]:
    found = {}
    for broker in brokers:
        report = snapshot.reports.get(broker)
        if report is None:
            found[broker] = {"running": False, "problem": snapshot.problems.get(broker, NOT_RUNNING)}
        else:
            lost = sum(loss["publications"] for loss in report["losses"].values())
            found[broker] = {"running": True, "lost": lost, **{name: report[name] for name in _BROKER_FIELDS}}
    return found


def _links(snapshot: Snapshot, story: Story) -> dict[str, dict[str, Any]]:
    """Return the links; one is ``congested`` if the sentence says so, so that the map does not contradict it."""
    congested = set(story.congested)
    named = {">".join(ends): link for ends, link in snapshot.links.items()}
    return {
        name: {field: link[field] for field in _LINK_FIELDS} | {"congested": name in congested}
        for name, link in named.items()
    }


def _changes(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the fields that have changed; removed ones are None."""
    changes: dict[str, Any] = {key: None for key in before if key not in now}
    for key, fields in now.items():
        known = before.get(key, {})
        changed = {name: value for name, value in fields.items() if name not in known or known[name] != value}
        changed |= {name: None for name in known if name not in fields}
        if changed:
            changes[key] = changed
    return changes


class Watcher:
    """Finds the changes that people should notice."""

    def __init__(self) -> None:
        self._before: Snapshot | None = None
        self._congested: dict[str, float] = {}

    def look(self, now: Snapshot, scene: Scene, story: Story) -> list[Event]:
        """Return the events since the last snapshot."""
        before, self._before = self._before, now
        events = self._congestion(now, scene, story)
        if before is None:
            return []
        events += _broker_events(before, now)
        gone = before.reports.keys() ^ now.reports.keys()
        for ends, link in now.links.items():
            known = before.links.get(ends)
            if known is not None and known["rate"] != link["rate"]:
                events.append(_limit_event(ends, link))
        known_pairs, pairs = _pairs(before), _pairs(now)
        for ends, is_up in pairs.items():
            if known_pairs.get(ends, is_up) != is_up and not gone.intersection(ends):
                events.append(_up_or_down(now, ends, is_up))
        return _coalesced(events)

    def _congestion(self, now: Snapshot, scene: Scene, story: Story) -> list[Event]:
        """Return the links that have become congested, as the sentence says, or have been free for a while."""
        events = []
        congested = set(story.congested)
        for link in scene.links:
            name, arrow = f"{link.source}>{link.target}", f"{link.source} → {link.target}"
            if name in congested and name not in self._congested:
                events.append(Event("congested", f"{arrow} is congested.", link=name))
            if name in congested or (name in self._congested and link.congested >= CONGESTED_SHARE):
                self._congested[name] = now.at_ms
            elif name in self._congested and now.at_ms - self._congested[name] >= CALM_MS:
                del self._congested[name]
                events.append(Event("free", f"{arrow} is free again.", link=name))
        return events


def _broker_events(before: Snapshot, now: Snapshot) -> list[Event]:
    events = [
        Event("broker_down", _not_running(broker, now.problems.get(broker, "it does not answer")), broker=broker)
        for broker in before.reports
        if broker not in now.reports
    ]
    for broker, report in now.reports.items():
        known = before.reports.get(broker)
        if known is None:
            events.append(Event("broker_up", f"{broker} is running.", broker=broker))
        elif known["routing"] != report["routing"]:
            events.append(Event("routing", report["routing"], broker=broker))
    return events


def _not_running(broker: str, problem: str) -> str:
    """Return the sentence about a broker that is gone; its supervisor may know no more than that."""
    return f"{broker} is not running." if problem == NOT_RUNNING else f"{broker} is not running: {problem}."


def _pairs(snapshot: Snapshot) -> dict[tuple[str, str], bool]:
    """Return whether each link is up, as both ends say."""
    pairs: dict[tuple[str, str], bool] = {}
    for (source, target), link in snapshot.links.items():
        ends = (min(source, target), max(source, target))
        pairs[ends] = pairs.get(ends, True) and link["up"]
    return pairs


def _up_or_down(now: Snapshot, ends: tuple[str, str], is_up: bool) -> Event:
    one, other = ends
    is_cut = any(now.links.get(each, {}).get("cut") for each in ((one, other), (other, one)))
    state = "up" if is_up else "cut" if is_cut else "down"
    return Event("up" if is_up else "down", f"{one} ↔ {other} is {state}.", link=f"{one}>{other}")


def _limit_event(ends: tuple[str, str], link: dict[str, Any]) -> Event:
    name, arrow = ">".join(ends), " → ".join(ends)
    if link["rate"]:
        return Event("throttled", f"{arrow} carries at most {link['rate']:g} publications per second.", link=name)
    return Event("lifted", f"{arrow} has no limit.", link=name)


def _coalesced(events: Sequence[Event]) -> list[Event]:
    """Return each event once, and many of the same kind as one."""
    kinds: dict[str, dict[Event, None]] = {}
    for event in events:
        kinds.setdefault(event.kind, {})[event] = None
    found: list[Event] = []
    for kind, same in kinds.items():
        if len(same) <= MOST_EVENTS and kind != "routing":
            found += same
        elif kind == "routing":
            found.append(_routing_event(list(same)))
        else:
            first = next(iter(same))
            text = f"{first.text} The same applies to {len(same) - 1} others."
            found.append(Event(kind, text, first.link, first.broker))
    return found


def _routing_event(events: Sequence[Event]) -> Event:
    """Return one event for all brokers whose routing has changed."""
    routings = " or ".join(sorted({event.text for event in events}))
    if len(events) == 1:
        return Event("routing", f"{events[0].broker} now uses {routings} routing.", broker=events[0].broker)
    return Event("routing", f"{len(events)} brokers now use {routings} routing.")
