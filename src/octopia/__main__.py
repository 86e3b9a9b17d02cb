"""``python -m octopia`` is the ``octopia`` command."""

from octopia.cli import main

main()
