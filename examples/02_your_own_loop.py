"""Use a loss in your own training loop: replace `cross_entropy` and keep the rest."""

import torch
from sklearn.datasets import load_digits
from torch import nn

from naysay import TransitionMatrix
from naysay.losses import ForwardCrossEntropy

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
Q = TransitionMatrix.without_zeros(10, seed=0)
inputs = torch.tensor(X / 16, dtype=torch.float32)
not_y = torch.tensor(Q.sample(y, seed=0))

network = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
loss = ForwardCrossEntropy(Q)  # nn.CrossEntropyLoss() would learn what the digits are not

for _epoch in range(40):
    for batch in torch.randperm(len(inputs)).split(64):
        optimiser.zero_grad()
        loss(network(inputs[batch]), not_y[batch]).backward()
        optimiser.step()

accuracy = (network(inputs).argmax(1) == torch.tensor(y)).float().mean()
print(f"{accuracy:.0%} right on the images it was trained on, without one true label")
