"""Build the documentation site into ``out/site``, and fail on any warning.

The site has pages of ``docs`` and of the root of the repository, where people look for them. All are copied to
``out/pages`` first, with the links between the two adapted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAGE = ROOT / "out" / "pages"
ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}

_ROOT_LINK = re.compile(rf"\]\((?:\.\./)*({'|'.join(map(re.escape, ROOT_PAGES))})")


def stage() -> None:
    """Copy all pages to one folder."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for source, target in ROOT_PAGES.items():
        (STAGE / target).write_text((ROOT / source).read_text().replace("](docs/", "]("))
    for page in STAGE.rglob("*.md"):
        up = "../" * (len(page.relative_to(STAGE).parts) - 1)
        page.write_text(_ROOT_LINK.sub(lambda link, up=up: f"]({up}{ROOT_PAGES[link[1]]}", page.read_text()))


def main() -> int:
    """Stage and build; return the exit code."""
    stage()
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--strict", "--clean"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
