"""The folders of spools, archives and outboxes, as people and Spark name them.

They are on file systems of this machine, since they need locks, atomic renames and ``fsync``. A URI of another file
system, taken for a path, would be a folder of that name in the current folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from octopia.errors import UsageError

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def local_folder(place: str | Path) -> Path:
    """Return the folder that a path or a ``file:`` URI names; raise UsageError for any other URI."""
    found = _URI.match(str(place))
    if found is None:
        return Path(place)
    # A Path has one slash where its URI had two or three.
    path = str(place)[found.end() - 1 :]
    names_machine = path.startswith("//") and not path.startswith("///")
    if found[1].lower() == "file" and not names_machine:
        return Path(f"/{path.lstrip('/')}")
    raise UsageError(
        f"expected a local folder, got {found[1]}://{path.lstrip('/')}: spools, archives and outboxes need a file "
        "system of this machine; mount it, and name the folder where it is mounted"
    )
