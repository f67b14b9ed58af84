import inspect
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from naysay import InvalidInput
from naysay.cli.data import info

pytestmark = pytest.mark.usefixtures("no_data_of_the_user")
app = typer.Typer()
app.command()(info)


@pytest.fixture
def run():
    def run(*arguments, stdin=None):
        return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text(
        'id,age,"a, b",not,is,who\n1,3,x,cat|dog,owl,ann\n1,3,x,cat,,bob\n2,4,y,owl,,\n'
    )
    return path


def test_the_page_shows_classes_annotators_and_warnings(run, table):
    result = run(
        table,
        "--label=not",
        "--true-label=is",
        "--annotator=who",
        "--id=id",
        "--classes=cat,dog,owl,fox",
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"cat +2 +█", result.output)
    assert re.search(r"fox +0", result.output)
    assert re.search(r"ann +2 ", result.output)
    assert "warning: 'fox': never named as complementary" in result.output


def test_json_is_one_object_with_the_same_figures(run, table):
    result = run(table, "--label", "not", "--features", 'age, "a, b"', "--json")
    values = json.loads(result.output)
    assert values["labels_per_class"] == {"cat": 2, "dog": 1, "owl": 1}
    assert values["shape"] == [3]


def test_standard_input_images_and_options_reach_the_reader(run, tmp_path):
    result = run("-", "--label=not", "--decimal=,", "--json", stdin="x;not\n1,5;a/b\n2;c\n")
    assert json.loads(result.output)["classes"] == ["a/b", "c"]
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 1, 4, 4), np.uint8), labels=[0, 1])
    assert "1x4x4" in run(tmp_path / "t.npz").output


def test_names_are_never_read_as_markup(run, tmp_path):
    (tmp_path / "t.csv").write_text("x,not\n1,[red]a[/red]\n2,[/b]\n")
    result = run(tmp_path / "t.csv", "--label=not")
    assert result.exit_code == 0
    assert "[red]a[/red]" in result.output


def test_many_classes_are_cut_and_counted(run, tmp_path):
    (tmp_path / "t.csv").write_text("x,not\n" + "".join(f"{i},c{i}\n" for i in range(50)))
    assert "… and 30 more" in run(tmp_path / "t.csv", "--label=not").output


def test_errors_pass_through_to_main(run, table):
    assert isinstance(run(table).exception, InvalidInput)
    assert isinstance(run("gone.csv", "--label=x").exception, FileNotFoundError)


@pytest.mark.unmeasured
def test_the_example_in_the_help_works_as_pasted():
    example = re.search(r"^ *(printf .*)$", inspect.getdoc(info) or "", re.MULTILINE)
    assert example is not None
    program = (
        "import typer; from naysay.cli.data import info; "
        "app = typer.Typer(); app.command()(info); app()"
    )
    command = example[1].replace("naysay data info", f"{sys.executable} -W error -c '{program}'")
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert re.search(r"owl +1", result.stdout)
