"""Certificates for development and for small overlays: an authority, and a certificate per broker.

They are what ``octopia cert`` writes. A certificate of a broker is for both ends of a connection and names the broker
(``octopia://broker/b.3``) and the hosts at which clients reach it.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from octopia.errors import BrokenCredentials, MissingDependency, UsageError
from octopia.security.files import replace_file
from octopia.transport.tls import URI_PREFIX

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise MissingDependency(
        "expected the package cryptography, got none: install it with pip install 'octopia[security]'"
    ) from None

CA_DAYS = 3650
BROKER_DAYS = 825
_SKEW = datetime.timedelta(minutes=5)
"""The allowance for clocks that differ: a new certificate is valid on all machines at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)

    def write(self, certificate: Path, key: Path, *, replace: bool = False) -> None:
        """Write both files, a new key for its owner only; existing ones stay unless ``replace``.

        Files that are replaced keep their owner and their mode.
        """
        existing = [path for path in (certificate, key) if path.exists()]
        if existing and not replace:
            raise UsageError(f"expected no file at {existing[0]}, got one: use --replace to overwrite it")
        # First the key: a broker that reads both in between keeps the old pair.
        replace_file(key, self.key, 0o600)
        replace_file(certificate, self.certificate, 0o644)


def make_ca(name: str, days: int = CA_DAYS) -> Pair:
    """Return a new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return _signed(builder, key, key)


def make_broker_certificate(ca: Pair, brokers: Sequence[str], hosts: Sequence[str], days: int = BROKER_DAYS) -> Pair:
    """Return a certificate, signed by an authority, for one broker or for several on one machine."""
    authority, signer = _load(ca)
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[Any] = [x509.UniformResourceIdentifier(f"{URI_PREFIX}{each}") for each in brokers]
    names += [_host(each) for each in dict.fromkeys(hosts)]
    builder = _builder(authority.subject, _name(", ".join(brokers)[:64]), key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(both, critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return _signed(builder.add_extension(issuer, critical=False), key, signer)


def _load(ca: Pair) -> tuple[x509.Certificate, Any]:
    try:
        return x509.load_pem_x509_certificate(ca.certificate), serialization.load_pem_private_key(ca.key, None)
    except (TypeError, ValueError) as error:
        raise BrokenCredentials(f"expected the certificate and the key of an authority, got: {error}") from None


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(issuer: x509.Name, subject: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, key: Any, signer: Any) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(encoding), private)
