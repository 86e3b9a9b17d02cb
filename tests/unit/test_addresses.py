import pytest

from octopia.addresses import DEFAULT_PORT, Address
from octopia.client.urls import parse_url


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address("10.0.0.4", 7411), "10.0.0.4:7411"),
        (Address("broker"), f"broker:{DEFAULT_PORT}"),
        (Address("::1", 7401), "[::1]:7401"),
        (Address("fe80::1%eth0", 7401), "[fe80::1%eth0]:7401"),
    ],
)
def test_what_is_printed_reads_back_from_a_url(address: Address, text: str):
    assert str(address) == text
    assert parse_url(f"octopia://{address}") == address
    assert parse_url(f"octopia://{address}/b.3") == Address(address.host, address.port, "b.3")
