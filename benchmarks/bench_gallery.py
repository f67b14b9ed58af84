"""Run the scripts of the gallery and record what each prints: "name: 97% right".

``python benchmarks/bench_gallery.py [SCRIPT ...]`` runs all, or those that are named. The script
for a GPU is left out: gpu_cifar.py records its figures.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from record import write_record

EXAMPLES = Path(__file__).parents[1] / "examples"
GALLERY = [
    "01_digits_in_five_lines",
    "06_suggestions",
    "09_hugging_face",
    "11_text",
    "12_penguins",
    "14_lightgbm",
    "15_annotation_task",
]
PRINTED = re.compile(r"^(?:(.+): )?(\d+)% (?:of .*)?right", re.MULTILINE)


def run(script):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(EXAMPLES / f"{script}.py")]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {name or "new examples": int(share) for name, share in PRINTED.findall(done.stdout)}


if __name__ == "__main__":
    results = {script: run(script) for script in sys.argv[1:] or GALLERY}
    print(results)
    write_record("gallery", results, n_runs=1)
