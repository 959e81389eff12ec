"""TGN and TGAT: their architectures, training and checkpoints. Reading a checkpoint needs no torch."""
