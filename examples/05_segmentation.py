"""Segmentation: logits have shape (N, K, H, W), and -100 marks pixels without a label."""

import torch

from naysay import TransitionMatrix
from naysay.losses import ForwardCrossEntropy

torch.manual_seed(0)
Q = TransitionMatrix.uniform(4, classes=["road", "tree", "house", "sky"])
truth = torch.arange(4).repeat_interleave(4).expand(8, 16, 16)  # four stripes
images = torch.nn.functional.one_hot(truth, 4).movedim(-1, 1) + 0.5 * torch.randn(8, 4, 16, 16)
not_this = torch.tensor(Q.sample(truth.numpy(), seed=0))
not_this[torch.rand(not_this.shape) < 0.5] = -100  # half of the pixels have no label

network = torch.nn.Conv2d(4, 4, kernel_size=3, padding=1)
optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
loss = ForwardCrossEntropy(Q)
for _step in range(100):
    optimiser.zero_grad()
    loss(network(images), not_this).backward()
    optimiser.step()
accuracy = (network(images).argmax(1) == truth).float().mean()
print(f"{accuracy:.0%} of the pixels right")
