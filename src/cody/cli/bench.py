"""What the engine and explanations cost on this machine."""

from __future__ import annotations

from typing import Annotated

from cody.cli.choices import Preset
from cody.cli.common import DataOption, JsonOption, app, print_json
from cody.cli.parser import Option
from cody.cli.progress import status
from cody.errors import CallError
from cody.what_if import parse_rows


@app.command()
def bench(
    data: DataOption = "collegemsg",
    preset: Annotated[Preset, Option(help="Sizes of the models.")] = Preset.paper,
    queries: Annotated[int, Option(min=1, help="Explanations to average over.")] = 20,
    sizes: Annotated[str, Option(help="Events of generated graphs: how cost grows.")] = "10000,100000,1000000",
    json_: JsonOption = False,
) -> None:
    """Measure what explanations cost on this machine."""
    wanted = sorted(set(parse_rows(sizes)))
    if wanted and wanted[0] < 1000:
        raise CallError(f"graphs of fewer than 1,000 events say nothing about growth: {sizes!r}")
    from cody import bench as measurements

    costs = []
    with status("Measuring ...") as show_status:
        for cost in measurements.run(data, preset, queries, wanted):
            costs.append(cost)
            show_status(f"Measuring ... {len(costs)} done")
    if json_:
        results = [measurements.as_json(cost) for cost in costs]
        print_json({"machine": measurements.machine(), "data": data, "preset": preset, "results": results})
        return
    engines = [cost for cost in costs if isinstance(cost, measurements.EngineCost)]
    explanations = [cost for cost in costs if isinstance(cost, measurements.ExplanationCost)]
    growth = [cost for cost in costs if isinstance(cost, measurements.GrowthCost)]
    from cody.cli import show

    show.print_parts(show.bench(engines, explanations, growth, measurements.machine()))
