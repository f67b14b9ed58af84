"""Progress bars on a terminal and elsewhere."""

import io
import re
import sys
from contextlib import closing

import pytest

from naysay._base.progress import DownloadBar, epoch_bar, job_bar, waiting


class Terminal(io.StringIO):
    def isatty(self):
        return True


def make_terminal(monkeypatch):
    """Make standard error a terminal, wide enough for one line."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return stream


def shown(stream):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


@pytest.mark.parametrize(
    "record, words",
    [
        ({"loss": 1.23456}, "loss 1.235"),
        ({"loss": 1.0, "held_out_loss": 0.5}, "loss 0.500"),
        (
            {
                "loss": 1.0,
                "held_out_loss": 0.5,
                "held_out_accuracy": 0.876,
                "samples_per_second": 51_234.5,
            },
            "loss 0.500, accuracy about 88%, 51,234/s",
        ),
        ({"loss": 2.0, "held_out_accuracy": -0.04}, "loss 2.000, accuracy about -4%"),
    ],
)
def test_an_epoch_in_words(record, words, monkeypatch):
    terminal = make_terminal(monkeypatch)
    with epoch_bar("training", 20, enabled=True) as on_epoch:
        on_epoch({"epoch": 1, **record})
    assert f" {words} " in shown(terminal)


def test_the_bar_stands_at_the_epoch_that_is_done_also_after_resuming(monkeypatch):
    terminal = make_terminal(monkeypatch)
    with epoch_bar("training", 20, enabled=True) as on_epoch:
        on_epoch({"epoch": 7, "loss": 0.25, "samples_per_second": 1000.0})
    assert "training" in shown(terminal)
    assert "7/20" in shown(terminal)
    assert "loss 0.250, 1,000/s" in shown(terminal)
    assert re.search(r"-:--:--|\d:\d\d:\d\d", shown(terminal))  # time left


def test_nothing_is_shown_where_nobody_looks(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for enabled in (True, False):
        with epoch_bar("training", 2, enabled=enabled) as on_epoch:
            on_epoch({"epoch": 1, "loss": 0.25})
    assert stream.getvalue() == ""


def test_several_runs_are_named_as_they_start(monkeypatch):
    terminal = make_terminal(monkeypatch)
    with job_bar("naysay demo", "methods") as start:
        start(0, 3, title="the first")
        start(1, 3, title="the second")
    assert re.search(r"the second .* 1/3 methods", shown(terminal))


def test_jobs_are_counted_when_they_are_done(monkeypatch):
    terminal = make_terminal(monkeypatch)
    with job_bar("naysay sweep: [b]odd[/b].csv", "trainings") as show:
        show(5, 6)
    assert re.search(r"naysay sweep: \[b\]odd\[/b\]\.csv .* 5/6 trainings", shown(terminal))
    with job_bar("naysay sweep: odd\a\x9b.csv", "trainings"):
        pass
    with waiting("reading odd\a\x9b.csv"):
        pass
    assert "\a" not in terminal.getvalue()
    assert "\x9b" not in terminal.getvalue()
    assert r"reading odd\x07\x9b.csv" in shown(terminal)
    with job_bar("naysay reproduce", "runs") as show:
        show(3, 7)
        show(title="the fifth")
    assert re.search(r"the fifth .* 3/7 runs", shown(terminal))


def test_a_download_counts_bytes_and_tells_them_to_its_check(monkeypatch):
    terminal = make_terminal(monkeypatch)
    told = []
    with closing(DownloadBar("download", lambda *bytes_: told.append(bytes_))) as bar:
        bar.update(500_000)
        bar.total = 4_000_000
        bar.update(500_000)
        bar.reset()
        bar.update(3_000_000)
    assert "3.0/4.0 MB" in shown(terminal)
    assert told == [(500_000, 0), (1_000_000, 4_000_000), (3_000_000, 4_000_000)]


def test_waiting_is_shown_on_a_terminal_only(monkeypatch):
    stream = make_terminal(monkeypatch)
    with waiting("reading [b]odd[/b].csv"):
        pass
    assert "reading [b]odd[/b].csv" in shown(stream)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with waiting("reading"):
        pass
    assert sys.stderr.getvalue() == ""
