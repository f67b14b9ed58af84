"""Randomly damaged files: one line, no traceback, no hang, no file left behind.

``python benchmarks/bench_damages.py`` tries ten thousand of them and writes down what it saw.
"""

import json
import shutil

import pytest

from damages import KINDS, try_damage, write_whole
from places import ROOT

pytestmark = pytest.mark.unmeasured
N_DAMAGES = 12  # of each kind of file


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_whole(folder)
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_one_line_or_no_matter(whole, tmp_path, monkeypatch, name):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    n_damages = N_DAMAGES if "fit" not in name else N_DAMAGES // 2
    outcomes = [try_damage(whole, tmp_path, KINDS[name], seed) for seed in range(n_damages)]
    faults = {seed: each.faults for seed, each in enumerate(outcomes) if each.faults}
    assert faults == {}
    assert any(each.is_refused for each in outcomes)


def test_ten_thousand_damaged_files_are_on_record():
    lines = (ROOT / "benchmarks" / "results" / "damages.jsonl").read_text("utf-8").splitlines()
    found = json.loads(lines[-1])["results"]["all"]
    assert found["damaged"] >= 10_000
    assert found["faults"] == 0
