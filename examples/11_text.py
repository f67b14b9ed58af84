"""Learn the topics of texts from "this is not about statistics": the documentation of SciPy."""

import importlib
import inspect
import re

import numpy as np
import pyarrow as pa

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.datasets.own import read_features, read_own

TOPICS = ["linalg", "signal", "sparse", "spatial", "special", "stats"]
SECTION = re.compile(r"\n(Parameters|Returns|Attributes|Methods|Notes|References|Examples)\n-")


def texts_about(topic: str) -> list[str]:
    """Collect the first paragraphs of the documentation of a subpackage of SciPy."""
    module = importlib.import_module(f"scipy.{topic}")
    documented = [each for name, each in vars(module).items() if not name.startswith("_")]
    for each in filter(inspect.isclass, list(documented)):
        documented += [member for name, member in vars(each).items() if name[0] != "_"]
    texts = set()
    for each in documented:
        text = inspect.getdoc(each) if callable(each) else None
        origin = getattr(each, "__module__", None) or module.__name__
        if text and str(origin).startswith(("numpy", module.__name__)):
            text = re.sub(r"^[\w.]+\([^)]*\)", "", SECTION.split(text)[0])  # without the signature
            texts.add(" ".join(text.split()))
    return sorted(text for text in texts if len(text.split()) >= 6)


if __name__ == "__main__":
    texts = {topic: texts_about(topic) for topic in TOPICS}
    y = np.repeat(np.arange(len(TOPICS)), [len(texts[topic]) for topic in TOPICS])
    order = np.random.default_rng(0).permutation(len(y))
    text = np.concatenate([texts[topic] for topic in TOPICS])[order]
    y, n = y[order], len(y) * 3 // 4
    labels = TransitionMatrix.uniform(len(TOPICS), classes=TOPICS).sample(y[:n], seed=0)

    # A table with a column of text is read as any other; naysay fit does the same with a CSV file.
    table = pa.table({"text": text[:n], "not": np.array(TOPICS)[labels]})
    own = read_own(table, label="not")
    print(f"{n} texts, {own.X.shape[1]} features; the first is about {TOPICS[y[0]]}:")
    print(own.describe(0)["text"][:90])
    clf = ComplementaryClassifier(random_state=0).fit(own.X, own.comp_labels)
    predicted = clf.predict(read_features(pa.table({"text": text[n:]}), own.recipe))
    print(f"{(predicted == y[n:]).mean():.0%} of {len(y) - n} new texts right")
