"""Checks that a model obeys the rules that explanations rely on, and a toy model that can be computed by hand.

>>> from cody.graph import TemporalGraph
>>> graph = TemporalGraph.from_arrays(src=[0, 3, 1, 0, 1], dst=[1, 4, 2, 2, 0], time=[0.0, 5.0, 10.0, 20.0, 30.0])
>>> report = check_model(ToyModel(graph), graph)
>>> report.passed
True
>>> report.raise_if_failed()  # for a test of your own model; print(report) shows each check
"""

from cody.models.checks.check import CheckResult, Report
from cody.models.checks.suite import CHECKS, check_model
from cody.models.toy import ToyModel

__all__ = ["CHECKS", "CheckResult", "Report", "ToyModel", "check_model"]
