"""Training an explainer for a model, and saving it; a training that was interrupted is resumed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch

from cody.baselines.checkpoint import save_scorer
from cody.baselines.differentiable import SoftModel
from cody.baselines.lessons import EpochProgress, Training
from cody.baselines.pgexplainer import ScorerSettings
from cody.baselines.tempme import MotifSettings
from cody.models.folder import check_free, make_folder
from cody.train.checkpoint import ResumeFile, clear_up

# A learned explainer has a module of its own, which bears its name and holds the settings of its training.
SETTINGS: dict[str, type[Training]] = {
    settings.__module__.rpartition(".")[2]: settings for settings in (ScorerSettings, MotifSettings)
}


def settings_of(policy: str) -> type[Training]:
    """The settings of the training that a policy of that name needs."""
    return SETTINGS[policy]


def train_explainer(model: SoftModel, settings: Training, folder: Path) -> Iterator[EpochProgress]:
    """Train a scorer for a model and save it; yields after each epoch.

    The same call resumes an interrupted training after its last epoch, and gives the same weights as an uninterrupted
    one.

    Args:
        model: The model that is explained.
        settings: Which explainer to train, and how.
        folder: Where to save it.
    """
    scorer = settings.new_scorer(model.network.sizes)
    clear_up(folder, scorer.FILES)
    check_free(folder, scorer.FILES, "trained explainer")
    is_new = not folder.exists()
    make_folder(folder)
    configuration = {"settings": asdict(settings), "model": model.fast.identity, "data": model.graph.identity}
    resume_file = ResumeFile(folder, scorer, settings.new_optimizer(scorer), configuration)
    before = resume_file.resume()
    reached = EpochProgress(**before[0]["reached"]) if before else EpochProgress(0, math.nan, 0.0, 0.0)

    def steps() -> Iterator[EpochProgress]:
        progress = reached
        try:
            if reached.epoch < settings.epochs:
                for progress in settings.train(model, scorer, resume_file.optimizer, reached.epoch):
                    resume_file.save({"reached": progress._asdict()})
                    yield progress
            origin = {"settings": asdict(settings), "reached": progress._asdict(), "threads": torch.get_num_threads()}
            save_scorer(folder, scorer, model, origin)
            resume_file.discard()
        finally:
            if is_new:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()

    return steps()
