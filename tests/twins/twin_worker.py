"""A program that runs the installed modules on random inputs and prints what they did, for comparison with their twins.

``python -m twin_worker plain|compiled SUBJECT FIRST END`` prints a hash per seed. With ``--lines`` it prints everything
that was hashed. A subject is a module ``twin_SUBJECT`` with a generator ``lines(seed)``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.machinery
import sys
from pathlib import Path

import octopia

PACKAGE = Path(octopia.__file__).parent
COMPILED_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def modules_with_types() -> list[str]:
    """Return the names of the modules that can be compiled."""
    sources = sorted(each.with_suffix(".py") for each in PACKAGE.rglob("*.pxd"))
    return [
        ".".join(("octopia", *each.relative_to(PACKAGE).with_suffix("").parts)) for each in sources if each.exists()
    ]


def is_compiled(name: str) -> bool:
    """Return whether a module is compiled."""
    return (importlib.import_module(name).__file__ or "").endswith(COMPILED_SUFFIXES)


def check_twin(twin: str) -> None:
    """Exit if a module is compiled that should be plain, or the other way round."""
    wrong = [name for name in modules_with_types() if is_compiled(name) != (twin == "compiled")]
    if wrong:
        sys.exit(f"expected {twin} modules in {PACKAGE}, got others: {', '.join(wrong)}")


def main() -> None:
    """Run one subject."""
    parser = argparse.ArgumentParser()
    parser.add_argument("twin", choices=("plain", "compiled"))
    parser.add_argument("subject")
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    check_twin(options.twin)
    subject = importlib.import_module(f"twin_{options.subject}")
    for seed in range(options.first, options.end):
        digest, count = hashlib.blake2b(digest_size=12), 0
        for line in subject.lines(seed):
            digest.update(line.encode(errors="surrogatepass"))
            count += 1
            if options.lines:
                print(ascii(line))
        print(f"seed {seed}: {digest.hexdigest()} of {count} lines")
    check_twin(options.twin)


if __name__ == "__main__":
    main()
