"""The files of a release agree with one another."""

import importlib
import json
import pkgutil
import re
import subprocess
import tomllib
from pathlib import Path

import naysay
from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = {path.stem: path.read_text("utf-8") for path in (ROOT / ".github").glob("*/*.yml")}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def test_workflows_call_targets_of_make():
    called = re.findall(r"run: make (?!\")(.*)", WORKFLOWS["test"] + WORKFLOWS["release"])
    (listed,) = re.findall(r"target: \[(.*)\]", WORKFLOWS["test"])
    named = {*" ".join(called).split(), *listed.split(", ")}
    assert named >= {"test", "test-minimums", "docs", "test-dist", "sbom", "workflows"}
    assert named <= TARGETS


def test_the_declared_pythons_are_those_that_are_tested():
    (matrix,) = re.findall(r"python: \[(.*)\]", WORKFLOWS["test"])
    tested = re.findall(r"3\.\d+", matrix)
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    assert tested == re.findall(r":: (3\.\d+)$", classifiers, re.MULTILINE)
    assert PROJECT["project"]["requires-python"].startswith(f">={tested[0]}")


def test_only_the_job_that_publishes_can_ask_for_an_identity():
    assert WORKFLOWS["release"].count("id-token: write") == 1
    assert "id-token" not in WORKFLOWS["test"]
    for text in (WORKFLOWS["test"], WORKFLOWS["release"]):
        assert "\npermissions: {}\n" in text  # jobs ask for what they need
        assert "secrets." not in text


def test_the_source_distribution_has_what_tests_and_pages_read():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in ("tests", "docs", "benchmarks", "examples", "Makefile", "constraints.txt"):
        assert f"/{name}" in included
    for pattern in included:
        assert list(ROOT.glob(pattern[1:])), f"pyproject.toml includes {pattern}, which is not here"


def test_types_of_all_that_the_reference_lists_are_checked_strictly():
    strict = set()
    for pattern in PROJECT["tool"]["basedpyright"]["strict"]:
        for found in ROOT.glob(pattern):
            strict |= {*found.rglob("*.py")} if found.is_dir() else {found}
    reference = (ROOT / "docs" / "reference.md").read_text("utf-8")
    listed = [pkgutil.resolve_name(name) for name in re.findall("^::: (.*)", reference, re.M)]
    listed += [getattr(each, name) for each in listed for name in getattr(each, "__all__", ())]
    homes = {base.__module__ for each in listed for base in getattr(each, "__mro__", ())}
    homes |= {getattr(each, "__module__", None) or getattr(each, "__name__", "") for each in listed}
    files = {
        Path(importlib.import_module(name).__file__) for name in homes if name.startswith("naysay")
    }
    assert len(files) > 40
    assert not files - strict


def test_tools_of_a_release_are_pinned():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (tools,) = re.findall(r"\$\(PIP\) (build .*)", makefile)
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    assert {*tools.split()} <= set(pinned)


def test_the_bill_of_materials_states_the_version():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (edit,) = re.findall(r'sed "(s/.dynamic.*?[^\\])" pyproject.toml', makefile)
    edit = edit.replace('\\"', '"').replace("$$version", "1.2.3")
    edited = subprocess.check_output(["sed", edit, ROOT / "pyproject.toml"], text=True)
    project = tomllib.loads(edited)["project"]
    assert (project["version"], "dynamic" in project) == ("1.2.3", False)
    assert '--pyproject "$$apart/pyproject.toml"' in makefile


def test_the_version_is_the_same_everywhere():
    version = naysay.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert json.loads((ROOT / ".zenodo.json").read_text("utf-8"))["version"] == version
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == version
    # files that later versions must read: python tests/compatibility/write.py VERSION
    assert (ROOT / "tests" / "compatibility" / version / "expected.json").is_file()
    status = PROJECT["project"]["classifiers"][0]
    assert status.endswith("Beta") == version.startswith("0.")


def test_metadata_for_archives_agree():
    zenodo = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert zenodo["license"] == PROJECT["project"]["license"]
    assert f"license: {zenodo['license']}\n" in citation
    (related,) = zenodo["related_identifiers"]
    assert f"doi: {related['identifier']}\n" in citation
    assert {each["name"] for each in zenodo["creators"]} == {
        each["name"] for each in PROJECT["project"]["authors"]
    }
