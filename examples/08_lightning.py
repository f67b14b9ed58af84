"""PyTorch Lightning: the loss is the only line that depends on complementary labels.

Early stopping uses held-out complementary labels; true labels serve only to score at the end.
"""

import logging

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from naysay import TransitionMatrix
from naysay.losses import ForwardCrossEntropy

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


class Digits(pl.LightningModule):
    """A small network and its loss."""

    def __init__(self, Q):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
        self.loss = ForwardCrossEntropy(Q)  # in place of nn.CrossEntropyLoss()

    def training_step(self, batch):
        inputs, not_y = batch
        return self.loss(self.network(inputs), not_y)

    def validation_step(self, batch):
        inputs, not_y = batch
        self.log("held-out loss", self.loss(self.network(inputs), not_y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


X, y = load_digits(return_X_y=True)
inputs, truth = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
true_Q = TransitionMatrix.with_zeros(10, seed=0)  # three possible labels per digit
not_y = torch.tensor(true_Q.sample(y, seed=0))
train, held_out, test = torch.randperm(1797, generator=torch.manual_seed(0)).split([1200, 200, 397])

for name, Q in (("Q known", true_Q), ("Q ignored", TransitionMatrix.uniform(10))):
    pl.seed_everything(0, verbose=False)
    model = Digits(Q)
    trainer = pl.Trainer(
        max_epochs=20,
        callbacks=EarlyStopping("held-out loss", patience=5),
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(TensorDataset(inputs[train], not_y[train]), batch_size=64, shuffle=True)
    validation = DataLoader(TensorDataset(inputs[held_out], not_y[held_out]), batch_size=200)
    trainer.fit(model, loader, validation)
    accuracy = (model.network(inputs[test]).argmax(1) == truth[test]).float().mean()
    print(f"{name}: {accuracy:.0%} right after {trainer.current_epoch} epochs")
