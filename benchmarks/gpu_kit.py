"""Collect what runs on a machine without network need: this commit, wheels, data, a start script.

    python benchmarks/gpu_kit.py KIT --data FOLDER [--python 3.12] [--without NAME ...]

The machine has PyTorch, SciPy and NumPy already. There, ``bash KIT/start.sh HOME`` unpacks this
commit to HOME/code (with git, so that records name it) and the data to HOME/data, and writes
HOME/env.sh. Then, for instance::

    . HOME/env.sh
    python3 benchmarks/gpu_plan.py --data-dir HOME/data --records HOME/records.jsonl > HOME/jobs.txt
    (setsid nohup python3 benchmarks/gpu_queue.py HOME/jobs.txt HOME/log --workers 2 &)

Commit first: changes that are not committed do not travel. KIT should be ignored by git.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What naysay imports to train, beyond what is on the machine.
WHEELS = (
    *("scikit-learn", "joblib", "threadpoolctl", "narwhals", "cloudpickle", "platformdirs"),
    *("typer", "shellingham", "annotated-doc", "rich", "markdown-it-py", "mdurl", "pygments"),
)
DATA = ("mnist", "habits", "machine-labels-aclcifar10.npz")
START = """\
set -e
kit=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/code" "$1/data" "$1/packages" "$1/log"
tar -xf "$kit/code.tar" -C "$1/code"
git config --global --add safe.directory "$1/code"
git -C "$1/code" checkout -q -f HEAD
for wheel in "$kit"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$1/packages"; done
cp -r "$kit"/data/. "$1/data"
echo "cd $1/code; export PYTHONUNBUFFERED=1 PYTHONPATH=$1/code/src:$1/packages" > "$1/env.sh"
. "$1/env.sh"
python3 -c "import naysay, sklearn, torch; print(naysay.__file__, torch.__version__)"
git -C "$1/code" log -1 --oneline
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kit", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--python", default="3.12", help="version on the other machine")
    parser.add_argument("--without", nargs="*", default=[], help="data to leave out")
    given = parser.parse_args()
    wheels = given.kit / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels)
    kind = ("--only-binary=:all:", "--python-version", given.python)
    places = [f"--platform={name}_x86_64" for name in ("manylinux_2_28", "manylinux2014")]
    subprocess.run([*command, *kind, *places, *WHEELS], check=True)
    with tempfile.TemporaryDirectory() as folder:
        clone = ("git", "clone", "--quiet", "--depth", "1", ROOT.resolve().as_uri(), folder)
        subprocess.run(clone, check=True)
        tar = ("tar", "-cf", str(given.kit / "code.tar"), "-C", folder, ".git")
        subprocess.run(tar, check=True)
    for name in DATA:
        source, target = given.data / name, given.kit / "data" / name
        if name in given.without or not source.exists():
            continue
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    (given.kit / "start.sh").write_text(START, encoding="utf-8")
    size = sum(file.stat().st_size for file in given.kit.rglob("*") if file.is_file())
    print(f"{given.kit}: {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
