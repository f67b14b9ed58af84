"""Records survive killed processes and are shared by several processes, which these tests start."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from naysay import InvalidData
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.spec import RunSpec
from places import SOURCE, SUPPORT


def make_spec(trial=0, **changes):
    fields = {"dataset": "mnist", "setting": "with0", "method": "forward", "knows": "true Q"}
    return RunSpec(**{**fields, "recipe": "quick", "trial": trial, **changes})


def make_record(trial=0, **changes):
    fields = {"accuracy": 0.9 + trial / 1000, "seconds": 1.5, "device": "a processor"}
    return RunRecord(spec=make_spec(trial), **{**fields, **changes})


def start(program, *arguments):
    """Start a Python process with a program that can import this file."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{SUPPORT}:{Path(__file__).parent}"},
    )


def test_what_is_written_is_read_again(tmp_path):
    file = RecordFile(tmp_path / "new" / "records.jsonl")
    assert file.read() == []
    full = make_record(
        1,
        estimates={"held_out_loss": 1.25},
        q_error={"estimated": 0.1},
        chosen={"lr": 0.01},
        matrices={"true": [[0.0, 1.0], [1.0, 0.0]]},
        history=[{"epoch": 1, "loss": 2.0}],
        versions={"torch": "2", "scipy": None},
        git_commit="abc",
        time="2026-01-01T00:00:00Z",
    )
    file.append(make_record())
    file.append(full)
    assert RecordFile(file.path).read() == [make_record(), full]
    assert file.hashes() == {make_spec().hash, make_spec(1).hash}
    line = json.loads(file.path.read_text().splitlines()[1])
    assert line["hash"] == make_spec(1).hash
    assert line["seed"] == 1


@pytest.mark.parametrize("cut", [1, 10, 60, -1])
def test_a_torn_last_line_is_ignored_and_then_repaired(tmp_path, cut):
    file = RecordFile(tmp_path / "records.jsonl")
    file.append(make_record())
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + whole[: cut if cut > 0 else len(whole) - 2])
    assert file.read() == [make_record()]
    file.append(make_record(1))
    assert file.read() == [make_record(), make_record(1)]
    assert file.path.read_bytes().startswith(whole)


def test_a_torn_only_line_leaves_an_empty_file(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    file.path.write_text('{"hash": "12')
    assert file.read() == []
    file.append(make_record())
    assert file.read() == [make_record()]


def test_a_record_that_lacks_only_its_line_end_is_kept(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    file.append(make_record())
    file.path.write_bytes(file.path.read_bytes().rstrip(b"\n"))
    assert file.read() == [make_record()]
    file.append(make_record(1))
    assert file.read() == [make_record(), make_record(1)]


def test_a_long_torn_line_is_removed_whole(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    file.append(make_record())
    with file.path.open("ab") as opened:
        opened.write(b'{"history": [' + b"1, " * 100_000)
    file.append(make_record(1))
    assert file.read() == [make_record(), make_record(1)]


def test_damage_inside_the_file_is_named(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    file.append(make_record())
    file.append(make_record(1))
    first, second = file.path.read_text().splitlines()
    file.path.write_text(f"{first[:40]}\n{second}\n")
    with pytest.raises(InvalidData, match=r"records\.jsonl, line 1: This is not JSON"):
        file.read()
    file.path.write_text(f"{first}\n[1]\n")
    with pytest.raises(InvalidData, match=r"line 2: .* a record is a JSON object"):
        file.read()
    file.path.write_text(first.replace('"mnist"', '"usps"') + "\n")
    with pytest.raises(InvalidData, match=r"line 1: The (hash|checksum) .*is not that of"):
        file.read()
    file.path.write_text('{"hash": "12"}\n')
    with pytest.raises(InvalidData, match="not a record of a run: 'seed'"):
        file.read()


def test_a_number_that_json_does_not_know_is_not_half_written(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    file.append(make_record())
    with pytest.raises(ValueError, match="JSON"):
        file.append(make_record(1, accuracy=float("nan")))
    assert file.read() == [make_record()]


@pytest.mark.unmeasured
def test_two_processes_append_to_one_file_and_no_line_is_lost(tmp_path):
    path = tmp_path / "records.jsonl"
    program = """
        import sys
        from test_records import RecordFile, make_record
        file = RecordFile(sys.argv[1])
        for trial in range(int(sys.argv[2]), int(sys.argv[2]) + 40):
            file.append(make_record(trial, history=[{"epoch": 1, "loss": 1.0}] * 200))
    """
    with start(program, path, 0) as first, start(program, path, 40) as second:
        assert [process.wait(timeout=60) for process in (first, second)] == [0, 0]
    assert sorted(record.spec.trial for record in RecordFile(path).read()) == list(range(80))


@pytest.mark.unmeasured
def test_killed_at_any_moment_every_finished_record_is_there(tmp_path):
    path = tmp_path / "records.jsonl"
    program = """
        import sys
        from test_records import RecordFile, make_record
        file = RecordFile(sys.argv[1])
        print("ready", flush=True)
        for trial in range(int(sys.argv[2]), 10**6):
            file.append(make_record(trial, history=[{"epoch": 1, "loss": 1.0}] * 2000))
            print(trial, flush=True)
    """
    n_before = 0
    for wait in (0.03, 0.08, 0.15):
        with start(program, path, n_before) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
            said = process.stdout.read().split()
        assert process.returncode == -signal.SIGKILL
        trials = [record.spec.trial for record in RecordFile(path).read()]
        assert trials == list(range(len(trials)))
        assert len(trials) >= n_before + len(said)  # what was said to be written is on file
        n_before = len(trials)
    RecordFile(path).append(make_record(n_before))
    assert len(RecordFile(path).read()) == n_before + 1
    assert n_before > 0


def test_a_claim_holds_against_another_process_and_ends_with_its_process(tmp_path):
    path = tmp_path / "records.jsonl"
    program = """
        import sys, time
        from test_records import RecordFile
        with RecordFile(sys.argv[1]).claim(sys.argv[2]) as mine:
            print(mine, flush=True)
            time.sleep(60)
    """
    run, other = make_spec().hash, make_spec(1).hash
    file = RecordFile(path)
    with start(program, path, run) as process:
        assert process.stdout.readline() == "True\n"
        with file.claim(run) as mine, file.claim(other) as free:
            assert (mine, free) == (False, True)
            file.append(make_record(1))  # appending is free while runs are claimed
        process.kill()
    with file.claim(run) as mine:
        assert mine
        with start(program, path, run) as second:
            assert second.stdout.readline() == "False\n"
            second.kill()


def altered_values():
    """Records with one value of a wrong type, or out of range."""
    good = RunRecord(spec=make_spec(), accuracy=0.5, seconds=1.0, device="cpu").as_json()
    del good["checksum"]
    wrong = {
        **{"accuracy": "high", "seconds": None, "device": 3, "estimates": [1], "q_error": 5},
        **{"matrices": {"true": [["a"]]}, "history": [1], "versions": {"torch": 2}, "time": 1},
        "git_commit": 7,
    }
    odd = [("accuracy", 1.5), ("accuracy", True), ("seconds", 10**400), ("history", [{"epoch": 1}])]
    for name, value in [*wrong.items(), *odd]:
        yield {**good, name: value}
    for name, value in {"dataset": 5, "anchors": "x", "n_train": "many", "knows": []}.items():
        yield {**good, "spec": {**good["spec"], name: value}}
    yield {**good, "spec": 5}


@pytest.mark.parametrize("values", list(altered_values()))
def test_a_record_with_a_wrong_type_is_refused_with_its_line(tmp_path, values):
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(values) + "\n")
    with pytest.raises(InvalidData, match=r"line 1: This is not a (record|spec) of a run"):
        RecordFile(path).read()


@pytest.mark.parametrize("line", ['{"a":' * 50_000, "[" * 100_000])
def test_deep_nesting_is_no_record(tmp_path, line):
    path = tmp_path / "records.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InvalidData, match="line 1: This is not JSON"):
        RecordFile(path).read()
    path.write_text(line)  # an unfinished last line
    assert RecordFile(path).read() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_no_file_of_records(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidData, match="must be an ordinary file"):
        RecordFile(tmp_path / "pipe").read()


def test_a_changed_figure_is_found_by_the_checksum(tmp_path):
    path = tmp_path / "records.jsonl"
    RecordFile(path).append(RunRecord(spec=make_spec(), accuracy=0.5, seconds=1.0, device="cpu"))
    assert len(RecordFile(path).read()) == 1
    path.write_text(path.read_text().replace('"accuracy": 0.5', '"accuracy": 0.9'))
    with pytest.raises(InvalidData, match="line 1: The checksum is not that of the record"):
        RecordFile(path).read()
