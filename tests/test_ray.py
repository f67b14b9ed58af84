"""Work on a real Ray cluster of two nodes: what is lost is done again, and nothing is doubled."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, KFold
from typer.testing import CliRunner

from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix, WorkerLost
from naysay._base.cluster import connect
from naysay.cli import app
from naysay.datasets.own import read_own
from naysay.experiments import RayExecutor, run, tasks
from naysay.experiments.records import RecordFile
from naysay.experiments.spec import RunSpec
from naysay.workflows import sweep
from naysay.workflows.fit import fit_own
from places import SOURCE, SUPPORT
from small_sets import make_digits

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason='Ray is missing: pip install "naysay[ray]"'
    ),
    pytest.mark.xdist_group("ray"),  # one cluster
]
LIMIT = 300  # seconds; no test takes half of that on a very busy machine
OPTIONS = {
    "network": "MLP",
    "optimiser": "adamw",
    "schedule": "cosine",
    "epochs": 2,
    "batch_size": 64,
    "lr": 5e-3,
    "weight_decay": 1e-2,
    "patience": 15,
}


def make_specs(n, **options):
    fields = {"dataset": "mnist", "setting": "with0", "method": "forward", "knows": "true Q"}
    return [
        RunSpec(**fields, recipe="quick", trial=trial, options={**OPTIONS, **options})
        for trial in range(n)
    ]


@pytest.fixture(autouse=True)
def limit():
    """End a test that waits for ever, because a cluster hangs, with an error."""

    def stop(number, frame):
        raise TimeoutError(f"The test took more than {LIMIT} seconds.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with one CPU each, on this machine, to which this process is connected."""
    import ray

    with (
        tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", f"{SOURCE}:{SUPPORT}:{SUPPORT / 'ray_workers'}")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # idle workers, which have loaded torch, must outlive those of another driver
        patch.setenv("RAY_idle_worker_killing_time_threshold_ms", "600000")
        patch.setenv("RAY_TMPDIR", folder)  # a cluster writes its address to the folder ray in it
        Path(folder, "ray").mkdir()
        size = {"num_cpus": 1, "object_store_memory": 10**8}
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # its data would be lost
        nodes = start_nodes(size)
        try:
            ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()


def start_nodes(size):
    """Start two nodes, for which Ray waits 30 seconds; a busy machine may need longer."""
    from ray.cluster_utils import Cluster

    for attempts_left in (2, 1, 0):
        nodes = Cluster()
        try:
            for _ in range(2):
                nodes.add_node(**size)
        except Exception:  # the one that Ray raises has no class of its own
            nodes.shutdown()
            if not attempts_left:
                raise
        else:
            return nodes
    raise AssertionError


def test_jobs_come_back_as_they_are_done_and_run_at_the_same_time(cluster, tmp_path):
    def work(job):
        if job == "goes":
            (tmp_path / "gone").touch()
        while not (tmp_path / "gone").exists():  # for ever, if the other did not run beside it
            time.sleep(0.01)
        time.sleep(0.5 if job == "waits" else 0)
        return os.getpid()

    found = list(RayExecutor().map(work, iter(["waits", "goes"])))
    assert [job for job, _ in found] == ["goes", "waits"]
    assert found[0][1] != found[1][1]


def test_a_worker_has_its_next_job_while_a_result_is_recorded(cluster, tmp_path):
    def work(job):
        (tmp_path / job).touch()
        while job == "long" and not (tmp_path / "next").exists():
            time.sleep(0.01)

    found = RayExecutor().map(work, iter(["long", "short", "next"]))
    assert next(found)[0] == "short"
    while not (tmp_path / "next").exists():  # although nobody asks for another result
        time.sleep(0.01)
    assert {job for job, _ in found} == {"long", "next"}


def test_an_error_of_a_job_is_raised_as_it_is(cluster):
    def refuse_odd(job):
        if job % 2:
            raise InvalidInput(f"job {job} must be even")

    with pytest.raises(InvalidInput, match=r"^job 3 must be even$"):
        list(RayExecutor().map(refuse_odd, [3]))
    with pytest.raises(InvalidInput, match=r"must have 1 GPUs for each job. It has 0\."):
        list(RayExecutor(gpus=1).map(abs, [1]))


def test_a_job_whose_worker_dies_is_run_again_but_not_for_ever(cluster, tmp_path):
    def work(job):
        with Path(tmp_path, job).open("a") as file:
            file.write("x")
        n_tries = len(Path(tmp_path, job).read_text())
        if job == "always" or (job == "once" and n_tries == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return n_tries

    lost = []
    executor = RayExecutor(retries=1, on_lost=lost.append)
    found = dict(executor.map(work, ["once", "always", "never"]))
    assert (found["once"], found["never"]) == (2, 1)
    assert isinstance(found["always"], WorkerLost)
    assert "lost 2 times" in str(found["always"])
    assert len(lost) == 2
    assert lost[0].startswith("A worker was lost, and its job is run again. Ray says: The worker")


def test_runs_are_those_of_one_process_and_a_second_driver_repeats_none(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(tasks, "_load", lambda name, folder: make_digits())
    specs = [*make_specs(3), *make_specs(1, epochs=3, speed=3)]  # the last has an unknown option
    files = [RecordFile(tmp_path / name) for name in ("here", "there")]
    started = []
    here = run(specs, files[0], device="cpu")
    there = run(specs, files[1], device="cpu", executor=RayExecutor(), on_run=started.append)
    assert here.to_dict() == there.to_dict()
    assert there.n_done == 3
    assert started == specs
    by_trial = [
        {record.spec.trial: (record.accuracy, record.history) for record in file.read()}
        for file in files
    ]
    assert by_trial[0] == by_trial[1]
    again = run(specs[:3], files[1], device="cpu", executor=RayExecutor())
    assert (again.n_done, again.n_skipped) == (0, 3)
    assert len(files[1].read()) == 3


def test_runs_of_a_killed_worker_are_trained_again_and_recorded_once(cluster, tmp_path):
    killed = []

    def kill_first_worker():
        parents = [
            psutil.Process(node.all_processes["raylet"][0].process.pid)
            for node in cluster.list_all_nodes()
        ]
        while not killed:
            for child in [each for parent in parents for each in parent.children(recursive=True)]:
                try:
                    if child.cmdline()[:1] == ["ray::call"] and not killed:
                        child.kill()
                        killed.append(child.pid)
                except (psutil.NoSuchProcess, psutil.ZombieProcess):
                    continue
            time.sleep(0.01)

    file = RecordFile(tmp_path / "records.jsonl")
    thread = threading.Thread(target=kill_first_worker, daemon=True)
    thread.start()
    summary = run(make_specs(4, epochs=10), file, device="cpu", executor=RayExecutor())
    thread.join()
    assert (summary.n_done, summary.refused) == (4, {})
    assert sorted(record.spec.trial for record in file.read()) == [0, 1, 2, 3]


def test_ctrl_c_while_ray_starts_waits_for_it(monkeypatch):
    import ray

    events = []

    def start(*args, **options):  # would crash if it were interrupted
        os.kill(os.getpid(), signal.SIGINT)
        events.append("started")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "shutdown", lambda: events.append("stopped"))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), connect("local"):
        events.append("used")
    assert events == ["started", "stopped"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_command_that_is_stopped_leaves_whole_records_and_the_next_one_goes_on(
    cluster, tmp_path, sent, code
):
    """Ctrl-C also ends the Ray that the command has started for itself."""
    file = RecordFile(tmp_path / "records.jsonl")
    asked = ["reproduce", "table2", "--quick", "--trials", "2", "--only", "LM/T*", "--device"]
    asked += ["cpu", "--out", str(file.path), "--ray"]
    asked += [cluster.address] if sent == signal.SIGKILL else []
    command = [sys.executable, "-m", "naysay", *asked]
    options = {
        "start_new_session": True,
        "preexec_fn": partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    }
    with subprocess.Popen(command, **options) as driver:
        while not file.path.exists() or not file.path.stat().st_size:
            assert driver.poll() is None
            time.sleep(0.02)
        started = psutil.Process(driver.pid).children(recursive=True)
        assert bool(started) == (sent == signal.SIGINT)
        os.killpg(driver.pid, sent)  # as a terminal does
        assert driver.wait(60) == code
    assert not psutil.wait_procs(started, 10)[1]
    n_before = len(file.read())
    assert 1 <= n_before < 6
    done = json.loads(invoke(*asked, "--json").stdout)
    assert (done["done"], done["on_file"]) == (6 - n_before, n_before)
    assert len({record.spec.hash for record in file.read()}) == len(file.read()) == 6


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_reproduce_on_the_command_line(cluster, tmp_path):
    out = tmp_path / "records.jsonl"
    command = ["reproduce", "table2", "--quick", "--trials", 1, "--only", "LM/T*with0"]
    command += ["--out", out, "--device", "cpu", "--ray", cluster.address]
    done = invoke(*command)
    assert done.exit_code == 0, done.output
    assert "table2: LM/T, with0, trial 1: " in done.output
    again = json.loads(invoke(*command, "--json").stdout)
    assert (again["done"], again["on_file"]) == (0, 1)


def test_a_grid_search_of_scikit_learn_runs_on_the_cluster(cluster):
    from ray.util.joblib import register_ray

    X, y = load_iris(return_X_y=True)
    not_y = TransitionMatrix.uniform(3).sample(y, seed=0)
    clf = ComplementaryClassifier(learner="network", epochs=2, random_state=0)
    search = GridSearchCV(clf, {"lr": [1e-6, 1e-2]}, cv=KFold(2, shuffle=True, random_state=0))
    here = clone(search).fit(X, not_y)
    register_ray()
    with joblib.parallel_config("ray", n_jobs=2):
        there = clone(search).fit(X, not_y)
    assert (
        there.cv_results_["mean_test_score"].tolist()
        == here.cv_results_["mean_test_score"].tolist()
    )


def test_a_sweep_is_that_of_one_process_although_a_worker_dies(cluster, tmp_path, monkeypatch):
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["not"] = np.array(list("xyz"))[TransitionMatrix.uniform(3).sample(y, seed=0)]
    own = read_own(frame, label="not")
    options = {"folds": 2, "learner": "network", "epochs": 2}
    grid = {"lr": [1e-6, 1e-2, -1.0]}  # the last cannot be trained
    here = sweep.sweep_own(own, grid, **options)[1]
    attempt = sweep._try

    def die_once(job, **data):
        if job == (1, 0) and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt(job, **data)

    monkeypatch.setattr(sweep, "_try", die_once)
    lost = []
    there = sweep.sweep_own(own, grid, executor=RayExecutor(on_lost=lost.append), **options)[1]
    assert len(lost) == 1
    assert [each.parameters for each in there.candidates] == [
        {"lr": 1e-2},
        {"lr": 1e-6},
        {"lr": -1},
    ]
    for first, second in zip(here.candidates, there.candidates, strict=True):
        assert (first.parameters, first.score) == (second.parameters, second.score)


def test_files_of_a_folder_are_predicted_for_on_the_cluster(cluster, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "not": rng.choice(["x", "y", "z"], size=60)})
    fit_own(read_own(frame, label="not"), learner="network", epochs=1)[0].save(tmp_path / "model")
    (tmp_path / "parts").mkdir()
    for number in range(3):
        frame.iloc[number::3].to_parquet(tmp_path / "parts" / f"{number}.parquet", index=False)
    command = ("predict", tmp_path / "model", tmp_path / "parts")
    for name, more in (("here", ()), ("there", ("--ray", cluster.address))):
        done = invoke(*command, "--out", tmp_path / name, *more)
        assert done.exit_code == 0, done.output
    here, there = (pq.read_table(tmp_path / name) for name in ("here", "there"))
    assert here.equals(there)
    assert len(there) == 60


def test_an_error_while_ray_starts_is_a_sentence(monkeypatch):
    import ray

    def start(*args, **options):
        raise Exception("The node timed out. Set --this.\nMore lines.")  # as Ray does

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(InvalidInput, match=r"try again\. Got 'local': The node timed out\.$"):
        connect("local").__enter__()
    with socket.create_server(("127.0.0.1", 0)) as server:  # something that is not Ray
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            InvalidInput, match=rf"that runs\. Got '{address}': The node timed out\.$"
        ):
            connect(address).__enter__()


def test_an_address_that_nothing_answers_at_is_refused_at_once(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # the cluster of the other tests stays
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    before = time.monotonic()
    with pytest.raises(InvalidInput, match=rf"Got '{address}': .*refused\.$"):
        connect(address).__enter__()
    assert time.monotonic() - before < 10  # Ray waits for minutes


def test_jobs_need_a_connection(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InvalidInput, match=r"by ray\.init\(\)\.$"):
        list(RayExecutor().map(abs, [1]))


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"pip install \"naysay\[ray\]\""), connect("local"):
        pass
