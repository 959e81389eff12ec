"""TGN and TGAT as torch modules: architectures, training, checkpoints."""
