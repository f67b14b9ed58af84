"""Balanced lists of labels: every label equally often, every pair about equally often."""

import numpy as np
from numpy.typing import NDArray

_TRIALS = 20  # exchanges tried per position in a list
_MAX_TRIALS = 100_000  # in total, about a second


def balanced_lists(
    n_classes: int, n_offered: int, n_lists: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Create balanced lists of distinct labels, shape (n_lists, n_offered).

    All labels are offered, and come first, equally often, up to one or two. Labels are then
    exchanged between lists to balance how often each pair of labels occurs in the same list: the
    more balanced the pairs, the more precisely all differences between classes are estimated.
    """
    lists = _deal(n_classes, n_offered, n_lists, rng)
    meetings = np.zeros((n_classes, n_classes), dtype=np.int64)
    for offered in lists:
        meetings[np.ix_(offered, offered)] += 1
    if n_classes > 2 and n_offered < n_classes and n_lists > 1:
        _even_out(lists, meetings, rng)
    return lists


def _deal(
    n_classes: int, n_offered: int, n_lists: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Fill each position with the label offered least often so far, ties broken at random."""
    lists = np.empty((n_lists, n_offered), dtype=np.int64)
    decks = [rng.permutation(n_classes) for _ in range(-(-n_lists // n_classes))]
    lists[:, 0] = np.concatenate(decks)[:n_lists]
    offers = np.bincount(lists[:, 0], minlength=n_classes).astype(np.float64)
    for offered in lists:
        for place in range(1, n_offered):
            chances = offers + rng.random(n_classes)
            chances[offered[:place]] = np.inf
            offered[place] = int(chances.argmin())
            offers[offered[place]] += 1
    return lists


def _even_out(
    lists: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator
) -> None:
    """Exchange labels between lists if that lowers the sum of squared pair counts.

    The first label of each list stays, so that all labels come first equally often.
    """
    n_lists, n_offered = lists.shape
    meetings = counts.tolist()  # Python lists are faster than arrays for single entries
    members = [set(offered) for offered in lists.tolist()]
    places_of = lists.tolist()
    n_trials = min(_TRIALS * lists.size, _MAX_TRIALS)
    pairs = rng.integers(n_lists, size=(n_trials, 2)).tolist()
    places = rng.integers(1, n_offered, size=(n_trials, 2)).tolist()
    for (one, other), (place, other_place) in zip(pairs, places, strict=True):
        leaving, coming = places_of[one][place], places_of[other][other_place]
        if coming in members[one] or leaving in members[other]:
            continue
        # labels that are in both lists do not change the sum
        here = list(members[one] - members[other] - {leaving})
        there = list(members[other] - members[one] - {coming})
        of_coming, of_leaving = meetings[coming], meetings[leaving]
        change = sum(of_coming[label] - of_leaving[label] for label in here)
        change -= sum(of_coming[label] - of_leaving[label] for label in there)
        if change + len(here) + len(there) >= 0:  # half of the change of the sum of squares
            continue
        for labels, sign in ((here, 1), (there, -1)):
            for label in labels:
                of_coming[label] += sign
                meetings[label][coming] += sign
                of_leaving[label] -= sign
                meetings[label][leaving] -= sign
        places_of[one][place], places_of[other][other_place] = coming, leaving
        members[one] = members[one] - {leaving} | {coming}
        members[other] = members[other] - {coming} | {leaving}
    lists[:] = places_of
