"""Many explanations: runs, records, metrics, tables; and surveys, which say what decides a model in general.

`survey`, which is `cody.survey` too, does it in one call. Of its steps, `cases` turns records of an evaluation into
explained links, `survey_of` says what they have in common, and `compare` where two models agree.
"""

from typing import TYPE_CHECKING

from cody.utils import lazy

if TYPE_CHECKING:
    from cody.study.cases import Case, cases
    from cody.study.comparison import Comparison, compare
    from cody.study.report import Part, Survey, survey_of
    from cody.study.surveys import survey

__all__ = ["Case", "Comparison", "Part", "Survey", "cases", "compare", "survey", "survey_of"]

lazy.import_on_demand(
    __name__,
    {
        "cody.study.cases": "Case cases",
        "cody.study.comparison": "Comparison compare",
        "cody.study.report": "Part Survey survey_of",
        "cody.study.surveys": "survey",
    },
)
