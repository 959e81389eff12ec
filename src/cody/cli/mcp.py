"""cody mcp: the questions as tools of a language model."""

from __future__ import annotations

from collections.abc import Sequence

from cody.cli import options as shared
from cody.cli.command import command
from cody.cli.messages import say
from cody.cli.progress import waiting
from cody.cli.serve import live_model, searches_option, seconds_option
from cody.cli.units import UnitOptions, unit_options
from cody.utils.extras import needed_by


@command("mcp")
@shared.model_options
@shared.protect_option
@shared.decision_options
@unit_options
@searches_option
@seconds_option
def mcp(
    source: shared.ModelSource,
    protect: Sequence[str],
    decide: shared.DecisionOptions,
    units: UnitOptions,
    searches: int,
    seconds: float,
) -> None:
    """Let a language model ask: predict, explain, what-if, audit and survey are tools of a server.

    It speaks the Model Context Protocol, through standard input and output, with the program that starts it (an
    assistant, an editor). Each answer says how it was verified.
    """
    with needed_by("cody mcp"):
        from cody.web.assistant import create_assistant

    live = live_model(source, protect, decide, units, searches, seconds)
    say(f"Serving {source.model} on {source.data} to the program that started this (Ctrl-C stops)")
    with waiting():
        create_assistant(live).run("stdio")
