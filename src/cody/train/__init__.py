"""TGN and TGAT as torch modules: architectures, training, checkpoints."""

from cody.utils.extras import needed_by

with needed_by("cody.train"):
    import torch  # noqa: F401
