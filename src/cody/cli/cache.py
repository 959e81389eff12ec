"""cody cache: files on this machine that can be made again."""

from __future__ import annotations

from cody.cli.command import command, option
from cody.cli.messages import print_json
from cody.cli.options import json_option
from cody.utils import files as files
from cody.utils.files import cache_directory
from cody.utils.tables import TextTable
from cody.utils.words import count


@command("cache")
@option("--clear", is_flag=True, help="Delete it; it is rebuilt when needed. Downloads stay.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """Show or clear the cache."""
    freed = files.clear() if clear else 0
    found = files.kept()
    if as_json:
        print_json({"folder": str(cache_directory()), "freed": freed, "kept": [each._asdict() for each in found]})
        return
    if clear:
        print(f"{_megabytes(freed)} freed in {cache_directory()}")
        return
    table = TextTable("#", "#", "")
    for each in found:
        table.add_row(_megabytes(each.size), count(each.files, "file"), each.what)
    table.add_row(
        _megabytes(sum(each.size for each in found)), "", f"in {cache_directory()}; cody cache --clear frees it"
    )
    print("\n".join(table.lines()))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
