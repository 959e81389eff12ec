"""cody cache: files on this machine that can be made again."""

from __future__ import annotations

from cody.cli.command import command, option
from cody.cli.messages import print_json
from cody.cli.options import json_option
from cody.utils import cache as files
from cody.utils.files import cache_directory
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
    for each in found:
        print(f"{_megabytes(each.size):>12}  {count(each.files, 'file'):>12}  {each.what}")
    print(f"{_megabytes(sum(each.size for each in found)):>12}  in {cache_directory()}; cody cache --clear frees it")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
