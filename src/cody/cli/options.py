"""Options that several commands share: which links, what could be otherwise, how to search, and who does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cody.cli.choices import EDIT_NAMES, FACTUAL_NAMES, POLICY_NAMES, SEARCH_NAMES, NearName
from cody.cli.parser import PAGE, Option

MOST = 2**63 - 1  # that a record can hold

# One link.
EventOption = Annotated[int | None, Option("--event", help="Row of the event whose link is asked about.")]
SrcOption = Annotated[str | None, Option("--src", help="Source of a link that need not have happened.")]
DstOption = Annotated[str | None, Option("--dst", help="Destination of that link.")]
TimeOption = Annotated[
    str | None,
    Option(
        "--time",
        help="When: a date like '2004-07-28 05:08' (UTC unless CODY_TIMEZONE names a zone), a number, or now, the end "
        "of the log.",
    ),
]

# Many links.
NodeOption = Annotated[str | None, Option("--node", help="Only links of this node.")]
EventsOption = Annotated[str | None, Option("--events", help="Only these events: rows 10,20,30, or a file of rows.")]
PeriodOption = Annotated[
    str | None, Option("--period", help="Which events, as shares of all. Default: 0.85..1, the test.")
]
KindsOption = Annotated[str, Option("--kinds", help="Predictions to explain: right ones, wrong ones.")]

# Another past.
WithoutOption = Annotated[str, Option("--without", help="Rows of events that are left out: 3,7,9")]
AddOption = Annotated[
    list[str] | None,
    Option("--add", metavar="EVENT", help='An event more: "SRC DST TIME", with a date, a number or now. Repeatable.'),
]
MoveOption = Annotated[
    list[str] | None,
    Option("--move", metavar="EVENT", help='An event at another time: "ROW TIME", or "ROW 1 day earlier". Repeatable.'),
]
AlterOption = Annotated[
    list[str] | None,
    Option(
        "--alter",
        metavar="EVENT",
        help='An event with other features: "ROW FEATURE=NUMBER", several of them. Repeatable.',
    ),
]
NewNodeOption = Annotated[
    list[str] | None,
    Option("--new-node", metavar="NAME", help="A node that --add may name, and nobody knows. Repeatable."),
]

# The search.
ExplainerOption = Annotated[
    str, Option("--explainer", metavar="NAME", help=f"Searches: {SEARCH_NAMES}. Factual: {FACTUAL_NAMES}.")
]
PolicyOption = Annotated[
    str | None, Option("--policy", metavar="NAME", help=f"What a search tries first: {POLICY_NAMES}.")
]
CandidatesOption = Annotated[
    int | None,
    Option("--candidates", min=1, help="Number of candidate events. Default: 64, up to 256 where nothing is found."),
]
NearOption = Annotated[
    NearName,
    Option("--near", help="Candidates: the latest of each end first; the paper's, on paths (events) or among nodes."),
]
AllowOption = Annotated[
    str | None,
    Option(
        "--allow", metavar="KINDS", help=f"What could be otherwise, preferred first: {EDIT_NAMES}. Default: remove."
    ),
]
ProtectOption = Annotated[
    list[str] | None,
    Option(
        "--protect",
        metavar="WHAT",
        help="May not be removed: events=3,7 or nodes=105 or times=2004-07-01..2004-07-28, or simultaneous, the events "
        "of the very moment of the link. Repeatable.",
    ),
]
SeedOption = Annotated[int, Option("--seed", min=0, max=MOST, help="For drawing links, and for random policies.")]

# The work, and what is printed.
WorkersOption = Annotated[int, Option("--workers", min=1, max=1024, help="Processes on this machine.")]
RayOption = Annotated[str | None, Option("--ray", help="Address of a Ray cluster, or local: work there.")]
CsvOption = Annotated[bool, Option("--csv", help="Print comma-separated values.")]
HtmlOption = Annotated[Path | None, Option("--html", writes=PAGE, help="Write a page that shows it to this file.")]
