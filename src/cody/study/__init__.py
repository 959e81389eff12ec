"""Many explanations: runs, records, metrics, tables; and surveys, which say what decides a model in general.

`survey`, which is `cody.survey` too, does it in one call. Of its steps, `cases` turns records of an evaluation into
explained links, `survey_of` says what they have in common, and `compare_models` where two models agree.
"""

from typing import TYPE_CHECKING

from cody.utils import lazy

if TYPE_CHECKING:
    from cody.study.audit import AuditReport, audit, read_audit
    from cody.study.cases import ExplainedLink, cases
    from cody.study.comparison import ModelComparison, compare_models, read_surveys
    from cody.study.report import Part, Survey, survey_of
    from cody.study.surveys import survey

__all__ = [
    "AuditReport",
    "ExplainedLink",
    "ModelComparison",
    "Part",
    "Survey",
    "audit",
    "cases",
    "compare_models",
    "read_audit",
    "read_surveys",
    "survey",
    "survey_of",
]

lazy.import_on_demand(
    __name__,
    {
        "cody.study.audit": "AuditReport audit read_audit",
        "cody.study.cases": "ExplainedLink cases",
        "cody.study.comparison": "ModelComparison compare_models read_surveys",
        "cody.study.report": "Part Survey survey_of",
        "cody.study.surveys": "survey",
    },
)
