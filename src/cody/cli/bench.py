"""What explanations cost on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cody.cli.choices import Preset
from cody.cli.common import DataOption, JsonOption, app, print_json
from cody.cli.parser import FOLDER, Option
from cody.cli.progress import status
from cody.errors import CallError
from cody.explain.what_if import parse_rows


@app.command()
def bench(
    only: Annotated[
        str, Option(metavar="NAMES", help="sets, explanation, scoring, startup; when asked for also tail, growth.")
    ] = "",
    data: DataOption = "collegemsg",
    preset: Annotated[Preset, Option(help="Sizes of the models.")] = Preset.paper,
    queries: Annotated[int, Option(min=1, help="Links to average over.")] = 10,
    links: Annotated[int, Option(min=1, help="tail: links of the test period.")] = 100,
    tail_data: Annotated[str | None, Option(help="tail: their data. Default: wikipedia, if it is here.")] = None,
    tail_model: Annotated[str | None, Option(help="tail: a TGN that was trained on them. Default: random.")] = None,
    sizes: Annotated[str, Option(help="growth: events of made-up graphs.")] = "100000,1000000",
    folder: Annotated[
        Path | None, Option(writes=FOLDER, help="growth: where there is room for tables. Default: /tmp.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Measure what explanations cost on this machine.

    Each figure is a ratio of two things measured in the same run, one thread each. The default takes about a minute;
    tail and growth take as long as their links and events need.
    """
    wanted = tuple(sorted(set(parse_rows(sizes))))
    if not wanted or wanted[0] < 1000:
        raise CallError(f"--sizes {sizes!r}: give numbers of events, 1,000 or more, such as 100000,1000000")
    from cody import bench as measurements

    names = measurements.chosen([name.strip() for name in only.split(",") if name.strip()])
    settings = measurements.BenchSettings(data, preset, queries, links, tail_data, tail_model, wanted, folder)
    rows = []
    with status("Measuring ...") as show_status:
        for row in measurements.run(names, settings, lambda what: show_status(f"Measuring {what} ...")):
            rows.append(row)
    left_out = [name for name in measurements.MEASUREMENTS if name not in names]
    machine = measurements.machine()
    if json_:
        results = [{"row": row.row, "what": row.what, "figure": row.figure, **row.values} for row in rows]
        print_json(
            {"machine": machine, "settings": measurements.as_json(settings), "rows": results, "left_out": left_out}
        )
        return
    from cody.cli import show

    show.print_parts(show.bench(rows, machine, left_out))
