"""A parent that does not read what its workers report holds nobody up."""

from octopia.client import connect_blocking
from octopia.experiments.local_overlay import at_free_addresses, running, urls_of
from octopia.overlay.files import overlay_from_text
from octopia.runtime import process


def test_brokers_go_on_while_nobody_reads_their_reports(monkeypatch):
    # Thousands of reports would be waiting by the end, many times what a pipe can hold.
    monkeypatch.setattr(process, "REPORT_S", 0.0001)
    overlay = at_free_addresses(overlay_from_text("path:4", 4))
    with running(overlay, 1) as workers:
        url = urls_of(overlay)[0]
        with connect_blocking(url) as client:
            subscription = client.subscribe("n >= 0")
            client.advertise("n >= 0")
            for number in range(500):
                client.publish({"n": number})
                assert next(iter(subscription))["n"] == number
        # Whoever reads again hears what is new.
        assert workers.is_ready()
