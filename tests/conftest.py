import torch

torch.set_num_threads(1)  # small tensors: more threads only get in each other's way
