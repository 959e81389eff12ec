"""cody mcp: the questions as tools of a language model."""

from __future__ import annotations

from cody.cli.command import command
from cody.cli.messages import say
from cody.cli.progress import waiting
from cody.cli.serve import LiveOptions, live_options
from cody.utils.extras import needed_by
from cody.utils.words import applied_to


@command("mcp")
@live_options
def mcp(served: LiveOptions) -> None:
    """Give a language model tools: predict, explain, what-if, audit and survey.

    It speaks the Model Context Protocol, through standard input and output, with the program that starts it (an
    assistant, an editor). Each answer says how it was verified.
    """
    with needed_by("cody mcp"):
        from cody.web.assistant import create_assistant

    live = served.open()
    say(f"Serving {applied_to(live.model_name, live.data_name)} to the program that started this (Ctrl-C stops)")
    with waiting():
        create_assistant(live).run("stdio")
