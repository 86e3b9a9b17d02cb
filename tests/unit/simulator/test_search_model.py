"""The parts of the exhaustive search: canonical forms, clones, ledgers and paths."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octopia.broker import BrokerSettings
from octopia.broker.core import OctopiaBroker
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, PublicationId
from octopia.link import LinkSettings, Session
from octopia.matching import SCAN
from octopia.node import Node
from octopia.overlay import Scot, parse_tree
from octopia.protocol import MessageKind, Overflow
from octopia.protocol.messages import Confirmed, Deliver
from octopia.simulator.search import Client, Explorer, Order, Scenario, find_scenario
from octopia.simulator.search.__main__ import main
from octopia.simulator.search.canonical import clone, digest
from octopia.simulator.search.ledger import Ledger, Witness
from octopia.simulator.search.model import Kind, Model, Transition
from octopia.simulator.search.scenarios import CutOf, advertise, publish, subscribe, unsubscribe
from octopia.simulator.search.steps import Ask, Attach, Stations

A0, A1, B0 = BrokerId("a", 0), BrokerId("a", 1), BrokerId("b", 0)
P, S = ClientId("P"), ClientId("S")
SCOT = Scot(parse_tree("path:2"), 2)
SMALL = Scenario(
    "small",
    "one subscription and one publication",
    (Client("P", A0, (publish(0),), before=(advertise(),)), Client("S", A1, (subscribe(),))),
    tree="a",
)


def make_broker() -> OctopiaBroker:
    broker = OctopiaBroker(SCOT.neighbourhood(A0), BrokerSettings(), matchers=SCAN)
    broker.receive(P, [], 0.0)
    return broker


class TestCanonicalForm:
    def test_times_and_counters_do_not_show(self) -> None:
        early, late = make_broker(), make_broker()
        late.wake(40.0)
        late.counters.refused += 1
        assert digest(early.state) == digest(late.state)

    def test_what_a_broker_was_asked_shows(self) -> None:
        stations = Stations(SCOT, BrokerSettings())
        idle = stations.begin()[A0]
        attached = stations.step(idle, Attach("S", ())).station
        subscribed = stations.step(attached, Ask("S", subscribe())).station
        assert len({idle, attached, subscribed}) == 3

    def test_a_link_that_is_down_shows(self) -> None:
        up, down = make_broker(), make_broker()
        down.link_down(B0, 0.0)
        assert digest(up.state) != digest(down.state)

    @pytest.mark.parametrize(
        "change",
        [
            lambda node: node.attach("S", Overflow.DISCONNECT, 0.0),
            lambda node: node.attach("S", Overflow.DISCONNECT, 0.0) and node.detach(node.client_named("S"), 0.0),
            lambda node: node.drain(),
            lambda node: node.pause(B0),
            lambda node: node.pace(B0, is_paced=True),
            lambda node: node.disconnect(B0, 0.0, has_left=True),
        ],
    )
    def test_the_state_of_a_node_beside_its_broker_shows(self, change: Callable[[Node], object]) -> None:
        nodes = [Node(make_broker(), [A1, B0], 1) for _ in range(2)]
        for node in nodes:
            node.attach("R", Overflow.DISCONNECT, 0.0)
            node.ready(0.0)
        assert digest(nodes[0]) == digest(nodes[1])
        change(nodes[0])
        for node in nodes:
            node.ready(0.0)
        assert digest(nodes[0]) != digest(nodes[1])

    def test_the_choice_of_a_client_shows(self) -> None:
        nodes = [Node(make_broker(), [A1, B0], 1) for _ in range(2)]
        for node, overflow in zip(nodes, Overflow, strict=True):
            node.attach("S", overflow, 0.0)
        assert digest(nodes[0]) != digest(nodes[1])

    def test_a_clone_has_the_same_form_and_a_life_of_its_own(self) -> None:
        broker = make_broker()
        before = digest(broker.state)
        copy = clone(broker)
        assert digest(copy.state) == before
        copy.attach(S, 0.0)
        copy.receive(S, [subscribe()], 0.0)
        copy.link_down(A1, 0.0)
        assert digest(broker.state) == before
        assert digest(copy.state) != before

    def test_a_cloned_session_shares_nothing(self) -> None:
        session = Session(1, LinkSettings())
        session.connected(0.0)
        before = digest(session)
        clone(session).drain(0.0)
        assert digest(session) == before


class TestStations:
    def test_a_step_is_taken_once(self) -> None:
        stations = Stations(SCOT, BrokerSettings())
        start = stations.begin()[A0]
        assert stations.step(start, Attach("S", ())) is stations.step(start, Attach("S", ()))

    def test_an_error_is_the_result_of_a_step(self) -> None:
        stations = Stations(SCOT, BrokerSettings())
        attached = stations.step(stations.begin()[A0], Attach("S", ())).station
        step = stations.step(attached, Ask("S", Confirmed(MessageKind.SUBSCRIPTION, 0)))  # type: ignore[arg-type]
        expected = "the link to S was closed: a Confirmed cannot come from client S"
        assert step.failure == f"a.0 failed: AssertionError: {expected}"
        assert step.station == attached


class TestWitness:
    witness = Witness(Scenario("", "", (Client("P", A0, (publish(0),)), Client("S", A1, (subscribe(), unsubscribe())))))
    delivery = Deliver(PublicationId(A0, 1, 0), publish(0).publication, (0,), 0, 0.0)

    def confirmed(self) -> Ledger:
        return self.witness.told(Ledger(), [0, 1], "S", Confirmed(MessageKind.SUBSCRIPTION, 0))[0]

    def test_a_publication_is_owed_to_whom_it_was_confirmed(self) -> None:
        assert self.witness.accepted(Ledger(), [1, 1], publish(0)).owed == ()
        assert self.witness.accepted(self.confirmed(), [1, 1], publish(0)).owed == ((0, 1, 0),)

    def test_nothing_is_owed_after_delivery_withdrawal_or_a_crash(self) -> None:
        owed = self.witness.accepted(self.confirmed(), [1, 1], publish(0))
        assert self.witness.told(owed, [1, 1], "S", self.delivery)[0].owed == ()
        assert self.witness.acted(owed, 1, unsubscribe()).owed == ()
        assert self.witness.interrupted(owed, [1]).owed == ()

    def test_a_second_delivery_is_wrong(self) -> None:
        once, nothing = self.witness.told(Ledger(), [1, 1], "S", self.delivery)
        assert nothing == ""
        _, complaint = self.witness.told(once, [1, 1], "S", self.delivery)
        assert complaint == "publication 0 was delivered twice to subscription 0 of S"

    def test_a_delivery_to_a_withdrawn_subscription_is_wrong(self) -> None:
        _, complaint = self.witness.told(Ledger(), [1, 2], "S", self.delivery)
        assert complaint == "publication 0 was delivered to subscription 0 of S, which does not want it"


class TestModel:
    def test_the_same_state_by_two_ways_is_one(self) -> None:
        scenario = Scenario("", "", (Client("S", A0, (subscribe(),)), Client("T", B0, (subscribe(),))), tree="path:3")
        model = Model(scenario)
        states = []
        for first, second in ((0, 1), (1, 0)):
            state = model.begin()
            for client in (first, second):
                state, _ = model.follow(state, Transition(Kind.ACT, client))
            states.append(state)
        assert states[0].digest() == states[1].digest()

    def test_a_cut_loses_what_is_on_its_way_until_the_link_is_healed(self) -> None:
        scenario = Scenario("", "", (Client("P", A0, (advertise(),)),), (CutOf(A0, A1),), tree="a")
        model = Model(scenario)
        state, _ = model.follow(model.begin(), Transition(Kind.ACT, 0))
        assert any(state.channels)
        state, _ = model.follow(state, Transition(Kind.FAULT, 0))
        assert not any(state.channels)
        kinds = [each.kind for each in model.transitions(state)]
        assert kinds == [Kind.NOTICE, Kind.NOTICE, Kind.CONNECT]
        assert not model.is_at_rest(state)

    def test_acknowledgements_that_arrive_at_once_hide_no_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scenario = Scenario("", "", SMALL.clients, (CutOf(A0, A1),), tree="a")
        model = Model(scenario)
        reduced = states_at_rest(model)
        monkeypatch.setattr(Model, "_acknowledge", lambda model, draft: None)
        full = states_at_rest(model)
        assert reduced == full
        assert len(full) > 10


def states_at_rest(model: Model) -> set[bytes]:
    """Return the digests of all states at rest that can be reached."""
    start = model.begin()
    met, frontier, at_rest = {start.digest()}, [start], set()
    while frontier:
        state = frontier.pop()
        if model.is_at_rest(state):
            at_rest.add(state.digest())
        for transition in model.transitions(state):
            after, complaint = model.follow(state, transition)
            assert not complaint
            if after.digest() not in met:
                met.add(after.digest())
                frontier.append(after)
    return at_rest


class TestExplorer:
    @pytest.mark.parametrize("order", Order)
    def test_every_order_meets_the_same_states(self, order: Order) -> None:
        report = Explorer(SMALL).search(order=order)
        assert report.complete
        assert report.violation is None
        assert report.states == Explorer(SMALL).search().states

    def test_a_limit_ends_the_search(self) -> None:
        report = Explorer(SMALL).search(limit=3)
        assert not report.complete
        assert report.states <= 5

    def test_a_path_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(UsageError, match="expected a number below 2 at this step of the path, got 7"):
            list(Explorer(SMALL).replay([7]))

    def test_an_unknown_scenario_is_refused(self) -> None:
        with pytest.raises(UsageError, match="expected one of control, "):
            find_scenario("nonsense")


class TestCommandLine:
    def test_a_search(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bits"]) == 0
        assert capsys.readouterr().out.startswith("bits: all ")

    def test_a_replay(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bits", "--replay", "1,0"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "S at a.1  UnsubscribeRequest 0",
            "a.1 > a.0  3: CivUnset [a.0/1/0] v1.3",
        ]

    @pytest.mark.parametrize("arguments", [["nonsense"], ["bits", "--replay", "99"], ["bits", "--replay", "x"]])
    def test_a_usage_error(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main(arguments) == 2
        assert capsys.readouterr().err.startswith("error: ")

    def test_help_has_an_example(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["--help"])
        assert "python -m octopia.simulator.search crash --limit 20000" in capsys.readouterr().out
