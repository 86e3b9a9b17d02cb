"""Measure the worst filters that brokers accept, on the worst publications that they accept.

Four questions, one row each:

- ``frame``: time and memory to refuse a subscription of 480 KB, one LIKE of 120,000 distinct characters.
- ``heaviest``: the time of one publication against five subscriptions, each of them as expensive as the limit permits,
  for every kind of predicate. ``scan`` evaluates the filters one by one; ``index`` has them among other subscriptions,
  and evaluates those twice that also exclude a number.
- ``search``: random patterns on random strings of few characters, as bad cases are. ``of_model`` is the highest ratio
  of the measured time to the one that ``octopia.content.costs`` states. A ratio above 2 would break the limit of 1 ms.
- ``forgotten``: memory that remains after many subscriptions with long patterns have been matched and removed.

Patterns are compiled when they are stored, which these times leave out. Each time is the best of several, because the
machine may do other things. The benchmark fails if an answer is wrong or if a frame takes more than 5 MB; rows say
whether a filter stayed within 1 ms.
"""

from __future__ import annotations

import argparse
import bisect
import functools
import gc
import itertools
import json
import operator
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, like, matches
from octopia.content.costs import cost_us
from octopia.content.limits import PATTERN_LENGTH_MAX, STRING_LENGTH_MAX
from octopia.errors import BadFrame, FilterTooLarge
from octopia.ids import BrokerId, ClientId, SubscriptionId
from octopia.matching import IndexSubscriptions
from octopia.wire import Reader
from octopia.wire.format import HEADER, Kind

HERE = BrokerId("a", 0)
CLIENT = ClientId("c")
COPIES = 5
FILTER_US_MAX = 1000
FRAME_BYTES_MAX = 5_000_000
TEXT = "a" * STRING_LENGTH_MAX
WIDE_TEXT = TEXT[:-1] + "\U0001f419"

Row = dict[str, Any]


def subscribe_frame(predicates: Sequence[dict[str, Any]]) -> bytes:
    """Return the frame of a subscription that no program could build."""
    message = {"type": "SubscribeRequest", "handle": 1, "interest": {"filters": [{"predicates": predicates}]}}
    body = msgspec.msgpack.encode(message)
    return HEADER.pack(HEADER.size - 4 + len(body), Kind.CONTROL, 0, -1, 1) + body


def measure_frame() -> Row:
    """Refuse a subscription with a pattern of 480 KB."""
    text = "".join(map(chr, range(0x10000, 0x10000 + 120_000)))
    pattern = f"%{text[:60_000]}_{text[60_000:]}%"
    frame = subscribe_frame([{"attribute": "x", "operator": "like", "operand": pattern}])

    def refuse() -> str:
        try:
            return str(list(Reader().feed(frame)))
        except BadFrame as error:
            return str(error)

    answer = refuse()
    check("got 120003" in answer, f"the frame was not refused for its length: {answer[:200]}")
    tracemalloc.start()
    refuse()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check(peak_bytes < FRAME_BYTES_MAX, f"the frame took {peak_bytes} bytes")
    return {"question": "frame", "frame_bytes": len(frame), "ms": best_us(refuse, 3) / 1000, "peak_bytes": peak_bytes}


def candidates() -> dict[str, Iterator[Predicate]]:
    """Return endless predicates that are true of the worst string and read all of it, by kind."""
    lengths = itertools.cycle((2, 3, 8, 33, 99, 100, 250))
    return {
        "contains": (like("x", f"%{'a' * size}b%", negated=True) for size in lengths),
        "middle": (like("x", f"%{'a' * size}b{'a' * size}%", negated=True) for size in itertools.cycle((3, 16, 100))),
        "segments": (like("x", f"{'%a' * 100}%{'a' * size}b%", negated=True) for size in itertools.cycle((2, 50))),
        "gap": (like("x", f"%{'a' * size}_b%", negated=True) for size in itertools.cycle((1, 2, 5))),
        "gaps": (like("x", f"%{'a_' * size}b%", negated=True) for size in itertools.cycle((5, 10, 20))),
        "anchored": (like("x", f"{'a_' * 100}%{'a' * size}_b", negated=True) for size in itertools.cycle((1, 9, 40))),
        "unequal": (Predicate("x", Operator.NE, TEXT[: 4096 - size]) for size in itertools.count()),
        "order": (Predicate("x", Operator.LE, TEXT[:4095] + "\U0001f419") for _ in itertools.count()),
        "list": (
            Predicate("x", Operator.NOT_IN, tuple(map(str, range(size, size + 100)))) for size in itertools.count()
        ),
        "numbers": (Predicate("n", Operator.BETWEEN, (size, 2**62)) for size in itertools.cycle(range(64))),
    }


def heaviest(predicates: Iterator[Predicate]) -> Disjunction:
    """Return as many predicates as a subscription may have, in filters whose last predicate is the only false one."""
    several = list(itertools.islice(predicates, 63 * 64))

    def is_refused(count: int) -> bool:
        try:
            conjunctions_of(several[:count])
        except FilterTooLarge:
            return True
        return False

    return conjunctions_of(several[: bisect.bisect_left(range(len(several) + 1), True, key=is_refused) - 1])


def conjunctions_of(predicates: Sequence[Predicate]) -> Disjunction:
    """Return filters of up to 63 predicates, each with one more that is false."""
    never = Predicate("n", Operator.NE, 1_000)
    return Disjunction(tuple(Filter((*each, never)) for each in batched(predicates, 63)))


def batched(predicates: Sequence[Predicate], size: int) -> Iterator[Sequence[Predicate]]:
    """Yield consecutive parts of a list."""
    return (predicates[at : at + size] for at in range(0, len(predicates), size))


def measure_heaviest(kind: str, repeats: int) -> Row:
    """Match one publication with five subscriptions of one kind."""
    interest = heaviest(candidates()[kind])
    publication = Publication({"x": WIDE_TEXT if kind == "order" else TEXT, "n": 1_000})
    index = IndexSubscriptions()
    for number in range(100 + COPIES):
        wanted = interest if number < COPIES else Disjunction((Filter((Predicate("y", Operator.EQ, number),)),))
        index.add(SubscriptionId(HERE, 1, number), wanted, CLIENT)
    predicates = [each for one in interest.filters for each in one.predicates[:-1]]
    check(all(each.evaluate(publication.attributes) for each in predicates), f"{kind}: a predicate is not true")
    check(not matches(interest, publication) and not len(index.match(publication).local), f"{kind}: wrong match")
    scan_us = best_us(lambda: matches(interest, publication), repeats)
    index_us = best_us(lambda: index.match(publication), repeats) / COPIES
    row = {"question": "heaviest", "kind": kind, "predicates": len(predicates), "model_us": interest.cost_us}
    row |= {"scan_us": scan_us, "index_us": index_us, "publication_ms": COPIES * max(scan_us, index_us) / 1000}
    return row | {"within_limit": max(scan_us, index_us) < FILTER_US_MAX}


def random_pattern(draw: random.Random) -> str:
    """Return a pattern of few characters, with or without gaps."""
    size = draw.choice((2, 3, 5, 8, 20, 40, 99, 100, 200))
    core = [*draw.choices(draw.choice(("a", "ab", "aaaaab")), k=size - 1), draw.choice("abc")]
    if draw.random() < 0.5:
        share = draw.choice((0.05, 0.5, 0.9))
        core = [draw.choice("a_") if 0 < at < size - 1 and draw.random() < share else core[at] for at in range(size)]
    if draw.random() < 0.3:
        core.insert(draw.randrange(size), "%")
    return f"%{''.join(core)}%"


def random_text(draw: random.Random) -> str:
    """Return a string of a few characters that repeat."""
    unit = "".join(draw.choices(draw.choice(("a", "ab", "aaab", "abc")), k=draw.choice((1, 2, 7, 40, 150))))
    size = draw.choice((STRING_LENGTH_MAX, STRING_LENGTH_MAX, 2400, 300))
    text = (unit * size)[:size]
    return text[:-1] + "\U0001f419" if draw.random() < 0.2 else text


def naive_search(pattern: str, text: str) -> bool:
    """Match a pattern with two anchors that are open, segment by segment and character by character."""
    position = 0
    for segment in pattern.strip("%").split("%"):
        last = len(text) - len(segment)
        while position <= last and any(c not in ("_", text[position + at]) for at, c in enumerate(segment)):
            position += 1
        if position > last:
            return False
        position += len(segment)
    return True


def measure_search(seed: int, cases: int) -> Row:
    """Search for patterns and strings that take longer than the model says."""
    draw = random.Random(seed)
    worst: Row = {"of_model": 0.0}
    matched = 0
    for number in range(cases):
        pattern, text = random_pattern(draw), random_text(draw)
        predicate = like("x", pattern)
        run = functools.partial(predicate.test, text)
        matched += bool(run())
        if number % 10 == 0:
            check(run() is naive_search(pattern, text), f"wrong answer for {pattern!r} on {text[:200]!r}")
        model_us = cost_us((predicate,))
        if best_us(run, 3) > worst["of_model"] * model_us:
            # The first measurement may have been interrupted.
            us = best_us(run, 20)
            found = {"pattern": pattern, "text": text[:40], "length": len(text), "us": us, "of_model": us / model_us}
            worst = max(worst, found, key=operator.itemgetter("of_model"))
    check(matched < cases, "every pattern matched")
    return {"question": "search", "cases": cases, "matched": matched} | worst


def measure_forgotten(count: int) -> Row:
    """Match and remove subscriptions with distinct patterns of the greatest length."""
    publication = Publication({"x": TEXT})

    def fill() -> None:
        index = IndexSubscriptions()
        for number in range(count):
            pattern = f"%{'a' * (PATTERN_LENGTH_MAX - 12)}_{number:08}%"
            # The time of a match is limited, so most of the pattern is anchored.
            wanted = Disjunction((Filter((like("x", pattern[1:]),)),))
            index.add(SubscriptionId(HERE, 1, number), wanted, CLIENT)
        check(not len(index.match(publication).local), "wrong match")
        for number in range(count):
            index.remove(SubscriptionId(HERE, 1, number))

    fill()
    gc.collect()
    tracemalloc.start()
    fill()
    gc.collect()
    kept_bytes, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"question": "forgotten", "subscriptions": count, "peak_bytes": peak_bytes, "kept_bytes": kept_bytes}


def best_us(run: Callable[[], object], repeats: int) -> float:
    """Return the shortest of several times."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def check(is_right: bool, complaint: str) -> None:
    """Stop the benchmark if a result is wrong."""
    if not is_right:
        sys.exit(f"WRONG: {complaint}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row of JSON per question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30, help="how often each match is timed (default: %(default)s)")
    parser.add_argument(
        "--cases", type=int, default=3000, help="how many random patterns are tried (default: %(default)s)"
    )
    parser.add_argument(
        "--subscriptions", type=int, default=5000, help="how many subscriptions come and go (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    print(json.dumps(measure_frame()))
    for kind in candidates():
        print(json.dumps(measure_heaviest(kind, options.repeats)))
    print(json.dumps(measure_search(options.seed, options.cases)))
    print(json.dumps(measure_forgotten(options.subscriptions)))


if __name__ == "__main__":
    main()
