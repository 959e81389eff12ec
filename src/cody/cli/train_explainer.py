"""cody train-explainer: an explainer that learns."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cody.cli.command import FOLDER, bundled, command, given_by, option, option_fields, real
from cody.cli.messages import print_json
from cody.cli.options import ModelSource, json_option, model_options, naming_what_was_left_out, use_threads
from cody.cli.progress import status
from cody.cli.running import follow_training
from cody.cli.train import TRAINING, seed_option
from cody.errors import CallError, did_you_mean
from cody.study.explainers import TRAINED
from cody.utils import words

if TYPE_CHECKING:
    from cody.baselines.lessons import EpochProgress

NAMES = ", ".join(TRAINED)
_training, _own = option_fields(TRAINING), option_fields("Options of single explainers")


@dataclass(frozen=True, slots=True)
class ExplainerTraining:
    """How an explainer is trained; None: its own default."""

    links: int = _training("Number of links of the training period to learn from.", default=1000)
    epochs: int = _training("Number of passes over these links.", default=30)
    learning_rate: float = _training("Step size of Adam.", type=real(0, 1), default=1e-3)
    seed: int = given_by(seed_option)
    size: float | None = _own("PGExplainer: weight of the size penalty. Default: 2.", type=real(0))
    entropy: float | None = _own("PGExplainer: weight of the entropy penalty. Default: 0.1.", type=real(0))
    prior: float | None = _own("TempME: prior share of motifs that are kept. Default: 0.05.", type=real(0, 1))
    divergence: float | None = _own("TempME: weight of the divergence from that prior. Default: 0.5.", type=real(0))


@command("train-explainer")
@option(
    "--explainer", metavar="NAME", default=TRAINED[0], help=f"Which one: {NAMES}. The first also guides T-GNNExplainer."
)
@model_options
@bundled("training", ExplainerTraining)
@option("--out", type=FOLDER, required=True, help="Folder for the explainer; resumes an interrupted training.")
@json_option
def train_explainer(explainer: str, source: ModelSource, training: ExplainerTraining, out: Path, as_json: bool) -> None:
    """Train an explainer for a model to rank the past events that its predictions rest on.

    It learns from the candidates of the paper, the latest events around each link (--near events).
    """
    if explainer not in TRAINED:
        raise CallError(f"--explainer {explainer!r} is not trained{did_you_mean(explainer, TRAINED)}: {NAMES} are")
    given = {each.name: value for each in fields(training) if (value := getattr(training, each.name)) is not None}
    graph = source.load()
    with status("Loading the model ..."):
        from cody.baselines import settings_of
        from cody.baselines import train_explainer as train
        from cody.baselines.differentiable import SoftModel
        from cody.engine import load_model

        use_threads(1)
        settings = _settings(settings_of(explainer), explainer, given)
        with naming_what_was_left_out(source.model, graph):
            model = SoftModel(load_model(source.model, graph, allow_data_mismatch=source.allow_data_mismatch))
        steps = train(model, settings, out)
    follow_training(
        steps, "Preparing the links ...", lambda step: ("epochs", step.epoch, training.epochs), _result_of_epoch
    )
    notes = out / f"{settings.scorer.FILES}.json"
    document = json.loads(notes.read_text(encoding="utf-8"))
    if as_json:
        print_json(document)
    else:
        print(f"Saved in {words.sanitize(out)}.\nFor model {document['model']}\nand data  {document['data']}.")


def _result_of_epoch(step: EpochProgress) -> str:
    kept = f"same decision {step.agreement:.1%}, events kept {step.weight:.1%}"
    return f"epoch {step.epoch:>3}  loss {step.loss:.4f}  {kept}"


def _settings(kind: Any, explainer: str, given: dict[str, Any]) -> Any:
    """The settings of an explainer; options that belong to another are refused."""
    for name in given.keys() - {field.name for field in fields(kind)}:
        raise CallError(f"the explainer {explainer!r} has no option --{name}")
    return kind(**given)
