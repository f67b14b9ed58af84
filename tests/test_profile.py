"""The profile of training steps can be taken anywhere; on a GPU it is what says what to mend."""

import importlib

import pytest

from places import ROOT


@pytest.fixture
def gpu_profile(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("gpu_profile")


@pytest.mark.unmeasured
def test_a_few_steps_are_profiled_on_a_cpu(gpu_profile, tmp_path):
    options = ["--device=cpu", "--steps=2", "--batch-size=4", f"--folder={tmp_path}"]
    assert gpu_profile.main(options) == tmp_path / "profile_cpu.txt"
    text = (tmp_path / "profile_cpu.txt").read_text("utf-8")
    header, *pages = text.split("\n\n")
    assert "2 steps" in header
    for name in ("5 LeNet-5 at once", "ResNet-18"):
        page, table = pages.pop(0), pages.pop(0)
        assert page.startswith(f"{name}, batches of 4")
        figures = [float(line.split()[-2]) for line in page.splitlines()[1:]]
        assert min(figures) > 0
        assert len(table.splitlines()) == 1 + 12
        listed = [line.split() for line in table.splitlines()[1:]]
        times = [float(cells[0]) for cells in listed]
        assert times == sorted(times, reverse=True)
        assert sum(times) < 1.05 * figures[1]
        assert any("conv" in cells[2] for cells in listed)  # most of the time of both


def test_time_covered_counts_what_overlaps_once(gpu_profile):
    assert gpu_profile.covered([(0, 2), (5, 6), (1, 3)]) == 4
    assert gpu_profile.covered([]) == 0
