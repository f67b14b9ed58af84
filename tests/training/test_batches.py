"""Batches: every example, in an order that follows seed and epoch alone."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from naysay.training import Examples
from naysay.training.batches import (
    batch_size_of,
    batches,
    derive_seed,
    epoch_order,
    fetch_ahead,
)

COUNTS = st.integers(1, 500)
SEEDS = st.integers(0, 2**31 - 1)


@given(n=COUNTS, largest=st.integers(1, 600), n_processes=st.integers(1, 5))
def test_batches_are_alike_hold_all_examples_and_few_of_them_twice(n, largest, n_processes):
    n_batches, size = batch_size_of(n, largest, n_processes)
    assert n_batches >= 1
    assert size % n_processes == 0
    assert size < largest + n_processes
    assert 0 <= n_batches * size - n < n_batches * n_processes


@given(n=st.integers(2, 500), largest=st.integers(2, 600))
def test_no_batch_is_a_single_example_or_larger_than_allowed(n, largest):
    n_batches, size = batch_size_of(n, largest)
    assert 2 <= size <= largest
    assert n_batches == -(-n // largest)  # no more steps than needed


@given(n=COUNTS, extra=st.integers(0, 900), seed=SEEDS, epoch=st.integers(0, 1000))
def test_an_epoch_visits_every_example_and_none_much_more_often(n, extra, seed, epoch):
    order = epoch_order(n, n + extra, seed, epoch)
    visits = torch.bincount(order, minlength=n)
    assert len(order) == n + extra
    assert len(visits) == n
    assert visits.min() >= 1
    assert visits.max() - visits.min() <= 1
    assert torch.equal(order, epoch_order(n, n + extra, seed, epoch))


def test_orders_differ_by_epoch_and_seed_and_leave_other_randomness_alone():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    orders = [epoch_order(50, 50, seed, epoch) for seed in range(4) for epoch in range(4)]
    assert len({tuple(order.tolist()) for order in orders}) == 16
    assert torch.equal(torch.rand(2), expected)


def test_first_places_are_shared_out_evenly():
    firsts = torch.stack([epoch_order(4, 4, seed, 0)[0] for seed in range(2000)])
    counts = torch.bincount(firsts, minlength=4)
    assert (counts - 500).abs().max() < 5 * (2000 * 0.25 * 0.75) ** 0.5


@given(st.lists(st.tuples(SEEDS, st.integers(0, 1000)), min_size=2, max_size=30, unique=True))
def test_seeds_derived_from_different_numbers_differ(numbers):
    seeds = {derive_seed(*each) for each in numbers}
    assert len(seeds) == len(numbers)
    assert all(0 <= seed < 2**63 for seed in seeds)  # what torch takes


def make_examples(*, more):
    X = torch.arange(20.0).reshape(10, 2)
    others = torch.tensor([[100.0, 101.0], [200.0, 201.0]]) if more else None
    rows = torch.tensor([7, 10, 0, 11, 7]) if more else torch.tensor([7, 3, 0, 9, 7])
    return Examples(X, torch.tensor([1, 0, 2, 1, 2]), rows, others)


@pytest.mark.parametrize("more", [False, True])
def test_labels_find_their_inputs_by_row(more):
    examples = make_examples(more=more)
    joined = examples.X if examples.more is None else torch.cat([examples.X, examples.more])
    assert examples.rows is not None
    expected = joined[examples.rows]
    assert len(examples) == 5
    assert torch.equal(torch.cat(list(examples.inputs(2))), expected)
    assert [len(part) for part in examples.inputs(2)] == [2, 2, 1]
    assert [len(part) for part in examples.inputs(5, numbers=6)] == [3, 2]
    assert [len(part) for part in examples.inputs(5, numbers=1)] == [1] * 5
    order = torch.tensor([4, 0, 1, 3, 2, 4])
    found = list(batches(examples, order, 3))
    assert torch.equal(torch.cat([inputs for inputs, _ in found]), expected[order])
    assert torch.equal(torch.cat([labels for _, labels in found]), examples.labels[order])
    assert [len(labels) for _, labels in found] == [3, 3]


def test_without_rows_label_and_input_have_the_same_place():
    examples = Examples(torch.arange(6.0)[:, None], torch.arange(6))
    for inputs, labels in batches(examples, torch.tensor([5, 0, 3, 3]), 2):
        assert torch.equal(inputs[:, 0], labels.float())


def test_bytes_stay_bytes_unless_other_inputs_are_floats():
    X = torch.arange(8, dtype=torch.uint8).reshape(4, 1, 2, 1)
    labels = torch.zeros(2, dtype=torch.int64)
    rows = torch.tensor([1, 4])
    same = Examples(X, labels, rows, X[:1] + 9)
    assert same.pick(rows).dtype == torch.uint8
    floats = Examples(X, labels, rows, torch.full((1, 1, 2, 1), 0.5))
    assert floats.pick(rows).flatten().tolist() == [2, 3, 0.5, 0.5]


def test_batches_are_copies_that_training_may_change():
    examples = make_examples(more=False)
    before = examples.X.clone()
    for inputs, _ in batches(examples, torch.arange(5), 5):
        inputs += 1
    assert torch.equal(examples.X, before)


# --- fetched ahead ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_what_is_fetched_ahead_comes_in_order(n_parts):
    parts = torch.arange(14).split(14 // n_parts)
    fetched = list(fetch_ahead(lambda part: part * 2, parts))
    assert torch.equal(torch.cat(fetched), torch.arange(14) * 2)


def test_the_next_part_is_on_its_way_while_one_is_used_and_no_more():
    begun = [threading.Event() for _ in range(4)]

    def fetch(part):
        begun[int(part)].set()
        return part

    for number, _ in enumerate(fetch_ahead(fetch, torch.arange(4).split(1))):
        if number + 1 < 4:
            assert begun[number + 1].wait(10)
        assert sum(event.is_set() for event in begun) == min(number + 2, 4)


def test_an_error_while_fetching_reaches_the_one_who_asks():
    def fetch(part):
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        next(fetch_ahead(fetch, torch.arange(4).split(1)))


def test_leaving_early_leaves_no_thread_behind():
    n_before = threading.active_count()
    parts = fetch_ahead(lambda part: part, torch.arange(4).split(1))
    next(parts)
    parts.close()
    assert threading.active_count() == n_before


@pytest.mark.parametrize("n, window", [(1000, 128), (1000, 10), (1001, 640), (50, 50)])
def test_a_window_visits_every_example_once_and_few_blocks_at_a_time(n, window):
    order = epoch_order(n, n, seed=0, epoch=1, window=window)
    assert sorted(order.tolist()) == list(range(n))
    size = max(1, window // 64)
    for part in order.split(64 * size):  # a window, but for the last block, which may be shorter
        assert len(set((part // size).tolist())) <= 64 + 1
    assert not torch.equal(order, order.sort().values)
    assert not torch.equal(order, epoch_order(n, n, seed=0, epoch=2, window=window))
