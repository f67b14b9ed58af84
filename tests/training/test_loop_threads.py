"""Small steps are computed with one thread, others with as many as torch was told."""

import os
import subprocess
import sys

import pytest
import torch

from naysay import ComplementaryClassifier
from naysay.networks import MLP, LeNet5
from naysay.training.loop import single_thread_if_small


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "network, batch_size, expected",
    [
        (MLP((64,), 10), 128, 1),
        (MLP((64,), 10), 1024, 2),  # 1.9e7 products
        (MLP((784,), 10, widths=(500,)), 256, 2),
        (LeNet5((1, 28, 28), 10), 16, 2),  # each of its weights is used many times
    ],
)
def test_a_second_thread_must_pay(two_threads, network, batch_size, expected):
    with single_thread_if_small(network, batch_size):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 2


def test_threads_come_back_after_an_error(two_threads):
    with pytest.raises(KeyError), single_thread_if_small(MLP((64,), 10), 8):
        raise KeyError
    assert torch.get_num_threads() == 2


def test_a_small_training_takes_one_thread(two_threads):
    seen = []

    def augment(inputs):
        seen.append(torch.get_num_threads())
        return inputs

    X, labels = torch.randn(60, 4).numpy(), torch.arange(60).numpy() % 3
    ComplementaryClassifier(epochs=1, augment=augment, random_state=0).fit(X, labels)
    assert seen[-1] == 1  # of the training; a sample was tried before
    assert torch.get_num_threads() == 2


FORKING = """
import multiprocessing, sys
import torch
from naysay.networks import MLP
from naysay.training import predict_logits

torch.set_num_threads(2)
network, X = MLP((200,), 10), torch.ones(20_000, 200)

def predict():
    return predict_logits(network, X).sum().item()

def report(queue):
    queue.put(predict())

expected = predict()  # starts the threads, which a forked process does not have
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=report, args=(queue,), daemon=True)
process.start()
process.join(30)
sys.exit(0 if process.exitcode == 0 and abs(queue.get() - expected) < 1e-3 else 1)
"""


@pytest.mark.unmeasured
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have():
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    result = subprocess.run([sys.executable, "-c", FORKING], env=environment, check=False)
    assert result.returncode == 0
