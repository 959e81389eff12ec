"""What is kept on this machine."""

from __future__ import annotations

from typing import Annotated

from cody.cli.common import JsonOption, app, print_json
from cody.cli.parser import Option
from cody.utils import cache
from cody.utils.files import cache_directory
from cody.utils.words import count


@app.command("cache")
def cache_(
    clear: Annotated[
        bool, Option("--clear", help="Remove it; it is made again when it is needed. Downloads stay.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Show or clear what is kept so that answers come sooner."""
    freed = cache.clear() if clear else 0
    found = cache.kept()
    if json_:
        print_json({"folder": str(cache_directory()), "freed": freed, "kept": [each._asdict() for each in found]})
        return
    if clear:
        print(f"{_megabytes(freed)} freed in {cache_directory()}")
        return
    for each in found:
        print(f"{_megabytes(each.size):>12}  {count(each.files, 'file'):>12}  {each.what}")
    print(f"{_megabytes(sum(each.size for each in found)):>12}  in {cache_directory()}; cody cache --clear makes room")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
