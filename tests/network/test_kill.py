"""Brokers that die with all that they know, and come back: others go on, tables are restored, new traffic arrives."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from load import OFFER, Load, some_turns
from processes import Process, free_ports
from raw_client import PATIENCE_S, RawClient, address_of, run
from rest import overlay_at_rest

from octopia.addresses import Address
from octopia.broker import BrokerSettings
from octopia.content import parse_filter
from octopia.ids import BrokerId
from octopia.overlay import parse_tree
from octopia.overlay.files import overlay_from_text
from octopia.overlay.scot import Scot
from octopia.protocol import Cause
from octopia.protocol.messages import AdvertiseRequest, Gap, SubscribeRequest
from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer
from support import at, turn

VICTIM = "b.0"


def tables(node: BrokerServer) -> tuple[set[str], set[str]]:
    """Return the ids in both tables of a broker."""
    state = node.broker.state
    return {str(entry.id) for entry in state.prt}, {str(entry.id) for entry in state.clt}


def dropped(overlay: Overlay, victim: str) -> int:
    """Count what the neighbours of a broker had written to it and given up."""
    links = [node.node.links.get(at(victim)) for node in overlay._servers.values()]
    return sum(link.session.dropped_unacknowledged for link in links if link is not None)


async def until_noticed(overlay: Overlay, victim: str) -> None:
    links = [node.node.links[at(victim)] for node in overlay._servers.values() if at(victim) in node.node.links]
    await overlay.wait_until(lambda: not any(link.is_up for link in links), f"the loss of {victim}")


def test_a_broker_that_was_killed_under_load_comes_back_with_full_tables():
    run(_kill_and_restart(rounds=4, seed=5))


@pytest.mark.soak
def test_a_broker_that_is_killed_many_times():
    run(_kill_and_restart(rounds=60, seed=6))


async def _kill_and_restart(rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.0", "c.1", "c.0"], ["c.0", "a.1", "b.1", "a.0"])
        before = {broker: tables(node) for broker, node in overlay._servers.items()}
        doomed: set[int] = set()
        for _ in range(rounds):
            first = load.published
            load.publish(60, bytes(500))
            await some_turns(chance)
            overlay.crash(VICTIM)
            doomed.update(range(first, load.published))
            await until_noticed(overlay, VICTIM)
            load.publish(30)  # These wait, or go around, and none of them may be lost.
            await some_turns(chance)
            await overlay.restart(VICTIM)
            await overlay_at_rest(overlay, load.clients)
        load.publish(50)
        await overlay_at_rest(overlay, load.clients)

        assert {broker: tables(node) for broker, node in overlay._servers.items()} == before
        for name, wanted in load.expected().items():
            got = load.got[name]
            assert got <= wanted, f"{name} got something twice, or something else"
            assert set(wanted - got) <= doomed, f"{name} misses what was published when all was well"
        load.leave()


def test_others_keep_working_while_a_broker_is_dead():
    run(_others_keep_working())


async def _others_keep_working() -> None:
    async with Overlay.local("path:3", 2) as overlay:
        # The way within cluster 1 does not need the victim; that from a.0 to cluster 1 does not either.
        load = await Load.begin(overlay, ["a.0", "c.1"], ["a.1", "c.1", "b.1", "a.0"])
        overlay.crash(VICTIM)
        await until_noticed(overlay, VICTIM)
        load.publish(100)
        for subscriber, wanted in zip(load.subscribers, load.expected().values(), strict=True):
            await subscriber.until(lambda s=subscriber, w=wanted: s.got() == w, "everything, without the dead broker")
        load.leave()


def test_neighbours_count_what_they_had_written_to_a_dead_broker():
    run(_count_the_dropped())


async def _count_the_dropped() -> None:
    async with Overlay.local("path:3", 1) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0"])
        link = overlay._servers[at("a.0")].node.links[at(VICTIM)]
        load.publish(40)
        await overlay.wait_until(lambda: link.session.awaits_acknowledgement, "publications on their way to the victim")
        overlay.crash(VICTIM)
        await until_noticed(overlay, VICTIM)
        assert dropped(overlay, VICTIM) == 0, "it might still come back with its memory"
        await overlay.restart(VICTIM)
        load.publish(10)
        await overlay_at_rest(overlay, load.clients)

        [got], [wanted] = load.got.values(), load.expected().values()
        missing = wanted - got
        assert got <= wanted
        assert set(missing) <= set(range(40))
        assert dropped(overlay, VICTIM) > 0
        assert missing.total() >= dropped(overlay, VICTIM), "what is counted as lost has not arrived"
        load.leave()


def test_clients_of_a_killed_broker_come_back_and_issue_again():
    run(_clients_come_back())


async def _clients_come_back() -> None:
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.1"])
        subscriber = await RawClient("S").connect(overlay.url(VICTIM))
        publisher = await RawClient("P").connect(overlay.url(VICTIM))
        await subscriber.subscribe("n >= 0")
        await publisher.advertise(OFFER)
        old = subscriber.session.peer_incarnation
        overlay.crash(VICTIM)
        await until_noticed(overlay, VICTIM)
        await overlay.restart(VICTIM)
        for client in (subscriber, publisher):
            await client.come_back()
            client.heard.clear()
        assert subscriber.session.peer_incarnation > old
        await subscriber.subscribe("n >= 0")
        await publisher.advertise(OFFER)
        load.publish(20)
        for number in range(20, 40):
            publisher.publish(number, n=number, even=number % 2 == 0)
        everything = dict.fromkeys(range(40), 1)
        await subscriber.until(lambda: subscriber.got() == everything, "all publications")
        await load.subscribers[0].until(lambda: load.subscribers[0].got() == everything, "all publications")
        await overlay_at_rest(overlay, [*load.clients, subscriber, publisher])
        assert subscriber.got() == everything
        # What the dead incarnation had issued for its clients is forgotten everywhere.
        alive = overlay._servers[at(VICTIM)].incarnation
        for node in overlay._servers.values():
            for entry in (*node.broker.state.prt, *node.broker.state.clt):
                if entry.id.host_broker == at(VICTIM):
                    assert entry.id.incarnation == alive
        for client in (*load.clients, subscriber, publisher):
            client.leave()


@pytest.mark.parametrize("seed", range(3))
def test_several_brokers_that_die_at_once_come_back_in_any_order(seed: int):
    run(_several(rounds=3, seed=seed))


@pytest.mark.soak
def test_several_brokers_that_die_many_times():
    run(_several(rounds=60, seed=9))


async def _several(rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:3", 3) as overlay:
        # Hosts of clients live on; all others may die.
        load = await Load.begin(overlay, ["a.0", "c.2"], ["c.0", "a.2", "b.1"])
        before = {broker: tables(node) for broker, node in overlay._servers.items()}
        mortal = ["a.1", "b.0", "b.2", "c.1"]
        for _ in range(rounds):
            victims = chance.sample(mortal, chance.randrange(2, 5))
            load.publish(30)
            for victim in victims:
                overlay.crash(victim)
                await some_turns(chance)
            chance.shuffle(victims)
            for victim in victims:
                await overlay.restart(victim)
                await some_turns(chance, 40)
            await overlay_at_rest(overlay, load.clients)
            first = load.published
            load.publish(20)
            await overlay_at_rest(overlay, load.clients)
            recent = load.expected(range(first, load.published))
            for subscriber in load.subscribers:
                assert max(subscriber.got().values()) == 1
                assert recent[subscriber.name] <= subscriber.got()
        assert {broker: tables(node) for broker, node in overlay._servers.items()} == before
        assert sum(node.broker.counters.occasions[Cause.GRACE] for node in overlay._servers.values()) == 0


def test_a_broker_goes_on_after_its_grace_and_tells_its_clients():
    run(_grace())


async def _grace() -> None:
    overlay_file = overlay_from_text("path:3", 1)
    async with Overlay(overlay_file, BrokerSettings(grace_ms=300.0)) as overlay:
        for victim in ("b.0", "c.0"):
            overlay.crash(victim)
        node = await _restarted(overlay, "b.0")
        client = await RawClient("S").connect(overlay.url("b.0"))
        publisher = await RawClient("P").connect(overlay.url("a.0"))
        publisher.say(AdvertiseRequest(0, parse_filter(OFFER)))
        client.say(SubscribeRequest(0, parse_filter("n >= 0")))
        await client.until(lambda: bool(client.told(Gap)), "the notice of a gap")
        host = overlay._servers[at("a.0")].broker
        await overlay.wait_until(lambda: host.table_sizes()["prt"] == 1, "the subscription")
        publisher.publish(0, n=0, even=True)
        assert node.broker.accepts_data
        await client.until(lambda: client.got() == {0: 1}, "the publication")


async def _restarted(overlay: Overlay, broker: str) -> BrokerServer:
    await overlay.restart(broker)
    return overlay._servers[at(broker)]


def test_large_tables_are_restored():
    run(_large_tables(1500))


async def _large_tables(count: int) -> None:
    async with Overlay.local("path:3", 1) as overlay:
        client = await RawClient("S").connect(overlay.url("c.0"))
        for handle in range(count):
            client.say(SubscribeRequest(handle, parse_filter(f"n = {handle}")))
        await overlay_at_rest(overlay, [client])
        before = tables(overlay._servers[at(VICTIM)])
        assert len(before[0]) == count
        overlay.crash(VICTIM)
        await until_noticed(overlay, VICTIM)
        node = await _restarted(overlay, VICTIM)
        await overlay_at_rest(overlay, [client])
        assert tables(node) == before


# asyncio of Python 3.11 forgets a connection that it accepts in the very turn in which the listener is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_that_dies_while_it_connects_is_dead():
    run(_die_while_connecting(rounds=25, seed=7))


async def _die_while_connecting(rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    victims = ["a.0", "b.0", "b.1"]
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.1"], ["c.1"])
        for number in range(rounds):
            victim = victims[number % len(victims)]
            overlay.crash(victim)
            await some_turns(chance, 8)
            await overlay.restart(victim)
            await some_turns(chance, 8)
        await overlay_at_rest(overlay, load.clients)
        for node in overlay._servers.values():
            for peer, link in node.node.links.items():
                assert link.session.peer_incarnation == overlay._servers[peer].incarnation
        first = load.published
        load.publish(20)
        await overlay_at_rest(overlay, load.clients)
        assert set(range(first, load.published)) <= set(load.subscribers[0].got())
        load.leave()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_dead_node_answers_nobody_who_had_just_connected(how: str):
    run(_connect_to_the_dying(how))


async def _connect_to_the_dying(how: str) -> None:
    async with Overlay.local("path:1", 1) as overlay:
        [node] = overlay._servers.values()
        reader, writer = await asyncio.open_connection(*address_of(overlay.url("a.0")))
        await _turns_until(lambda: bool(node.guests))
        if how == "kill":
            node.kill()
        else:
            await node.stop()
        with contextlib.suppress(ConnectionResetError):
            assert b"Opening" not in await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()


def test_a_dead_node_takes_no_answer_to_what_it_had_dialled():
    run(_dial_and_die())


async def _dial_and_die() -> None:
    overlay = overlay_from_text("path:2", 1)
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        node.kill()
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        ended.set_result(b"")
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    node = BrokerServer(overlay, at("a.0"))
    node.start({at("b.0"): Address("127.0.0.1", server.sockets[0].getsockname()[1])})
    await asyncio.wait_for(ended, PATIENCE_S)
    server.close()
    await server.wait_closed()


async def _turns_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await turn()


# Processes.

SCOT = Scot(parse_tree("path:3"), 2)


def test_a_process_that_was_killed_by_sigkill_comes_back(tmp_path: Path):
    run(_kill_a_process(tmp_path))


async def _kill_a_process(folder: Path) -> None:
    ports = free_ports(len(SCOT.brokers))
    addresses = dict(zip(SCOT.brokers, ports, strict=True))
    overlay = folder / "overlay.toml"
    overlay.write_text(
        'tree = "path:3"\nclusters = 2\n'
        + "".join(f'[brokers."{broker}"]\nport = {port}\n' for broker, port in addresses.items())
    )

    async def start(broker: BrokerId) -> Process:
        return await Process.start(str(broker), "broker_process.py", str(overlay), str(broker))

    def url(broker: str) -> str:
        return f"octopia://127.0.0.1:{addresses[at(broker)]}"

    processes = {broker: await start(broker) for broker in SCOT.brokers}
    try:
        await asyncio.gather(*(process.hear("ready") for process in processes.values()))
        subscribers = [await RawClient(f"S{broker}").connect(url(broker)) for broker in ("c.0", "a.1")]
        publisher = await RawClient("P").connect(url("a.0"))
        for subscriber in subscribers:
            await subscriber.subscribe("n >= 0")
        await publisher.advertise(OFFER)
        victim = at(VICTIM)
        before = await processes[victim].ask("status", "status")

        for number in range(200):
            publisher.publish(number, bytes(200), n=number, even=True)
        await publisher.until(lambda: publisher.session.acknowledged > 50, "some acknowledgements")
        await processes[victim].kill()
        await subscribers[1].until(lambda: set(range(200)) <= set(subscribers[1].got()), "all over other ways")
        processes[victim] = await start(victim)
        await processes[victim].hear("ready")
        after = await processes[victim].ask("status", "status")
        assert before["prt"]
        assert before["clt"] == after["clt"]
        assert before["prt"] == after["prt"]

        for number in range(200, 300):
            publisher.publish(number, n=number, even=True)
        for subscriber in subscribers:
            await subscriber.until(lambda s=subscriber: set(range(200, 300)) <= set(s.got()), "all after recovery")
            assert max(subscriber.got().values()) == 1
        missing = set(range(200)) - set(subscribers[0].got())
        status = await processes[at("a.0")].ask("status", "status")
        # What was written and not acknowledged counts as dropped, though it may have been passed on.
        assert len(missing) <= status["dropped"]
        for client in (*subscribers, publisher):
            client.leave()
    finally:
        await asyncio.gather(*(process.stop() for process in processes.values()))
