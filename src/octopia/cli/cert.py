"""``octopia cert``: a certificate authority and broker certificates, for development and for small overlays."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import (
    AsJson,
    Clusters,
    OutFolder,
    OverlayArgument,
    complete_brokers,
    find_overlay,
    make_folder,
)
from octopia.cli.output import count_of, print_json
from octopia.errors import UsageError

if TYPE_CHECKING:
    from octopia.security.certificates import Pair

CA_FILE = "ca.pem"
CA_KEY = "ca.key"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Replace = Annotated[bool, typer.Option("--replace", help="Replace files that exist.")]


@examples("octopia cert ca --out certs")
def ca(out: OutFolder, replace: Replace = False, as_json: AsJson = False) -> None:
    """Create a certificate authority that signs broker certificates.

    It writes ca.pem, which brokers and clients need, and ca.key, which only `octopia cert broker` needs: do not copy it
    to brokers. Anyone who has the key can create a certificate for any broker, so use one authority per overlay.
    """
    from octopia.security.certificates import make_ca

    make_folder(out)
    certificate, key = out / CA_FILE, out / CA_KEY
    make_ca("OctopiA overlay authority").write(certificate, key, replace=replace)
    if as_json:
        print_json({"certificate": str(certificate), "key": str(key)})
    else:
        typer.echo(f"wrote {certificate} and {key}")


@examples(
    "octopia cert broker overlay.toml --out certs",
    "octopia cert broker overlay.toml b.3 --out certs --hostname broker3.example.com",
)
def broker(
    overlay: OverlayArgument,
    out: OutFolder,
    brokers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BROKER",
            help="The brokers that get a certificate; by default all.",
            autocompletion=complete_brokers,
        ),
    ] = None,
    clusters: Clusters = None,
    hostname: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Another name or address by which clients reach them; may be repeated."),
    ] = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Create broker certificates, signed by the authority in the same folder.

    Each names one broker and the host of its address in the overlay file. Running brokers use new files for new
    connections, without a restart.
    """
    from octopia.security.certificates import make_broker_certificate

    found = find_overlay(overlay, clusters)
    chosen = [found.scot.broker(name) for name in brokers] if brokers else found.scot.brokers
    authority = _authority(out)
    written = {}
    for each in dict.fromkeys(chosen):
        hosts = [*_names_of(found.addresses[each].host), *(hostname or [])]
        certificate, key = out / f"{each}.pem", out / f"{each}.key"
        make_broker_certificate(authority, [str(each)], hosts).write(certificate, key, replace=replace)
        written[str(each)] = {"certificate": str(certificate), "key": str(key), "hosts": hosts}
    if as_json:
        print_json(written)
        return
    typer.echo(f"wrote {count_of(len(written), 'certificates')} with keys into {out}; in the overlay file:\n")
    typer.echo(
        f'[security]\nca = "{out / CA_FILE}"\ncertificate = "{out}/{{broker}}.pem"\nkey = "{out}/{{broker}}.key"'
    )


def _authority(folder: Path) -> Pair:
    from octopia.security.certificates import Pair

    try:
        return Pair((folder / CA_FILE).read_bytes(), (folder / CA_KEY).read_bytes())
    except OSError as error:
        raise UsageError(
            f"expected {CA_FILE} and {CA_KEY} in {folder}, got: {error.strerror}; create them with `octopia cert ca`"
        ) from None


def _names_of(host: str) -> list[str]:
    """Return the names by which clients reach a broker with this host in the overlay file."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return list(_LOOPBACK) if host == "localhost" else [host]
    return list(_LOOPBACK) if address.is_loopback or address.is_unspecified else [host]
