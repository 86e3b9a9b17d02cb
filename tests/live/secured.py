"""Overlays with TLS and tokens for tests: certificates, a file of tokens, and an overlay that uses them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trustme

from octopia.content import parse_filter
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.runtime.local import Overlay as RunningOverlay
from octopia.security.certificates import Pair, make_broker_certificate
from octopia.security.tokens import Token, TokenRole, new_token, read_tokens, write_tokens
from octopia.settings import SecuritySettings

LOOPBACK = ("127.0.0.1", "localhost")


class Secured:
    """A folder with an authority, the certificates of the brokers of an overlay, and tokens."""

    def __init__(self, folder: Path, tree: str = "path:2", clusters: int = 2, *, has_tokens: bool = False):
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.tokens = folder / "tokens.toml"
        described = overlay_from_text(tree, clusters)
        for broker in described.scot.brokers:
            self.issue(str(broker))
        if has_tokens:
            write_tokens(self.tokens, [])
        security = SecuritySettings(
            str(self.ca),
            str(folder / "{broker}.pem"),
            str(folder / "{broker}.key"),
            str(self.tokens) if has_tokens else "",
        )
        addresses = {broker: dataclasses.replace(at, speaks_tls=True) for broker, at in described.addresses.items()}
        self.overlay: Overlay = dataclasses.replace(described, security=security, addresses=addresses)

    def issue(self, file: str, brokers: Sequence[str] | None = None, authority: trustme.CA | None = None) -> None:
        """Write a certificate of a broker, or one that names others, or is signed by another authority."""
        signer = authority or self.authority
        pair = Pair(signer.cert_pem.bytes(), signer.private_key_pem.bytes())
        made = make_broker_certificate(pair, [file] if brokers is None else brokers, LOOPBACK)
        made.write(self.folder / f"{file}.pem", self.folder / f"{file}.key", replace=True)

    def add_token(
        self,
        name: str,
        *,
        advertise: str = "FALSE",
        read: str = "FALSE",
        role: TokenRole = TokenRole.CLIENT,
        lives_s: float | None = None,
        **options: Any,
    ) -> str:
        """Add a token to the file, and return it."""
        text, secret_hash = new_token(name)
        now = datetime.datetime.now(datetime.UTC)
        expires = None if lives_s is None else now + datetime.timedelta(seconds=lives_s)
        added = Token(
            name, secret_hash, role, expires, advertise=parse_filter(advertise), read=parse_filter(read), **options
        )
        write_tokens(self.tokens, [*read_tokens(self.tokens).values(), added])
        return text

    def revoke(self, name: str) -> None:
        """Mark a token as revoked."""
        tokens = read_tokens(self.tokens)
        write_tokens(self.tokens, (tokens | {name: dataclasses.replace(tokens[name], is_revoked=True)}).values())

    def run(self) -> RunningOverlay:
        """Return the overlay, not started yet, in this process."""
        return RunningOverlay(self.overlay)
