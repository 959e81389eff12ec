"""A model as a whole: what decides its predictions in general, from many explained ones.

`cases` turns records of an evaluation into explained links, `survey` says what they have in common, and `compare` where
two models agree.
"""

from cody.survey.cases import Case, cases
from cody.survey.compare import Comparison, compare
from cody.survey.report import Part, Survey, survey

__all__ = ["Case", "Comparison", "Part", "Survey", "cases", "compare", "survey"]
