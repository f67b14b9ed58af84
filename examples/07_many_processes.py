"""Train one classifier in several processes: the same script, alone or under torchrun.

    python 07_many_processes.py
    torchrun --standalone --nproc-per-node=2 07_many_processes.py

If it is interrupted, start it again: it continues from the folder "digits-checkpoint".
"""

import os

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import distributed

from naysay import ComplementaryClassifier, TransitionMatrix

if "RANK" in os.environ:  # started by torchrun
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group()

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
Q = TransitionMatrix.with_zeros(10, seed=0)
clf = ComplementaryClassifier(
    transition=Q, epochs=10, checkpoint="digits-checkpoint", random_state=0
).fit(X, Q.sample(y, seed=0))

if os.environ.get("RANK", "0") == "0":  # all processes have the same weights
    clf.save("digits-model")
    print(f"{(clf.predict(X_test) == y_test).mean():.0%} right")

if distributed.is_initialized():
    distributed.destroy_process_group()
