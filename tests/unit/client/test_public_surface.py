"""The names that programs may use, exactly, and what importing them costs."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import octopia
from octopia import errors
from octopia.client.client import ConnectContext
from octopia.content import Disjunction
from octopia.errors import OctopiaError

NAMES = {
    *("Advertisement", "Cause", "Client", "Gap", "Received", "Subscription", "connect"),
    *("BlockingAdvertisement", "BlockingClient", "BlockingSubscription", "connect_blocking"),
    *("Algorithm", "Filter", "Overflow", "Overlay", "Publication", "RoutingSettings", "__version__"),
}
OF_OTHER_ROOMS = {"BadRequest", "DamagedData", "InvalidData", "JobFailed", "MissingDependency", "Stuck"}
"""The errors of HTTP, records, the pipeline and the simulator only."""

ATTRIBUTES = {
    octopia.Client: (
        "accepted advertise broker broker_incarnation close is_connected name produce_as publish publish_many repeated "
        "subscribe"
    ),
    octopia.Subscription: (
        "acknowledge batches buffered gaps has_ended interest last_gap lost next next_batch next_events resume_point "
        "take_notices unsubscribe"
    ),
    octopia.Advertisement: "offer unadvertise",
    octopia.Received: "attributes get hops id number payload publication published_ms received_ms",
    octopia.BlockingClient: (
        "accepted advertise broker close is_connected name produce_as publish publish_many repeated subscribe"
    ),
    octopia.BlockingSubscription: (
        "acknowledge gaps interest iterate last_gap lost next resume_point take_notices unsubscribe"
    ),
    octopia.BlockingAdvertisement: "offer unadvertise",
    octopia.Overlay: "brokers connect crash cut is_ready local restart start stop throttle url wait_until",
    ConnectContext: "",
}


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new interpreter."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def source_of(kind: type) -> str:
    """Return the source of a class, which may be compiled."""
    file = Path(octopia.__file__).parent.joinpath(*kind.__module__.split(".")[1:]).with_suffix(".py")
    text = file.read_text() if file.exists() else inspect.getsource(sys.modules[kind.__module__])
    classes = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef) and each.name == kind.__name__]
    return ast.get_source_segment(text, classes[0]) or ""


def public(names: object) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_package_has_the_public_names_and_every_error_of_theirs():
    tree = {name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, OctopiaError)}
    assert set(octopia.__all__) == NAMES | (tree - OF_OTHER_ROOMS)
    assert set(octopia.__all__) <= set(dir(octopia))
    assert octopia.Filter is Disjunction
    assert octopia.TimedOut is errors.TimedOut
    assert octopia.__version__ == importlib.metadata.version("octopia")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        octopia.nothing  # noqa: B018


def test_all_names_can_be_imported_at_once():
    names: dict[str, object] = {}
    exec("from octopia import *", names)
    assert set(octopia.__all__) <= names.keys()


@pytest.mark.parametrize("kind", ATTRIBUTES, ids=lambda kind: kind.__name__)
def test_nothing_else_is_public(kind: type):
    assert public(dir(kind)) == set(ATTRIBUTES[kind].split())
    assigned = set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", source_of(kind)))
    assert public(assigned) <= set(ATTRIBUTES[kind].split())


def test_importing_the_package_loads_nothing_else():
    found = loaded_by("import octopia")
    assert {name for name in found if name.startswith("octopia")} == {"octopia"}
    assert not found & {"asyncio", "lark", "msgspec", "importlib.metadata"}


def test_clients_load_no_broker_and_no_matching_index():
    rooms = {name.split(".")[1] for name in loaded_by("import octopia.client") if name.startswith("octopia.")}
    assert "client" in rooms
    assert not rooms & {"algorithms", "broker", "matching", "node", "runtime", "simulator", "tid"}


def test_an_overlay_that_was_not_started_says_so():
    overlay = octopia.Overlay.local("path:2", 1)
    with pytest.raises(octopia.UsageError, match="expected an overlay that was started"):
        overlay.connect("a.0")
    with pytest.raises(octopia.UsageError, match=r"expected a broker that runs, got a\.0"):
        overlay.throttle("a.0", "b.0", rate=1.0)


@pytest.mark.parametrize("url", [7400, ["octopia://127.0.0.1", None]])
def test_a_url_is_a_text(url: object):
    with pytest.raises(octopia.UsageError, match="expected the URL of a broker"):
        octopia.connect(url)  # type: ignore[arg-type]


def test_a_timeout_is_a_number():
    with pytest.raises(octopia.UsageError, match="expected a timeout in seconds above 0, or None, got '1'"):
        octopia.connect(timeout="1")  # type: ignore[arg-type]
