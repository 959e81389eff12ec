"""A model as a whole: what decides its predictions in general, from many explained ones.

`survey`, which is `cody.survey` too, does it in one call. Of its steps, `cases` turns records of an evaluation into
explained links, `survey_of` says what they have in common, and `compare` where two models agree.
"""

from cody.survey.cases import Case, cases
from cody.survey.compare import Comparison, compare
from cody.survey.of_model import survey
from cody.survey.report import Part, Survey, survey_of

__all__ = ["Case", "Comparison", "Part", "Survey", "cases", "compare", "survey", "survey_of"]
