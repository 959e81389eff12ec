"""The model contract, the decision made from a logit, checks of a model, and saved model folders."""

from typing import TYPE_CHECKING

from cody.utils import lazy

if TYPE_CHECKING:
    from cody.models.checks.suite import check_model
    from cody.models.toy import ToyModel

__all__ = ["ToyModel", "check_model"]

lazy.import_on_demand(__name__, {"cody.models.checks.suite": "check_model", "cody.models.toy": "ToyModel"})
