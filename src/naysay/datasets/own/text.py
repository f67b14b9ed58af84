"""Convert a column of text to features: TF-IDF of words, or embeddings by the user's own model.

TF-IDF counts words and pairs of words, with a weight that falls with the number of texts that have
the word. A truncated singular value decomposition reduces these counts, of which there may be
20,000, to a few features (latent semantic analysis): words that occur in the same texts count as
similar. The number of features is the square root of that of the texts, from 16 to 128, because
models overfit many features of few examples with weak labels.
"""

# callers and files may have anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import hashlib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput
from naysay._base.mapped import parts_of
from naysay.datasets.own.batches import counting_from
from naysay.datasets.own.columns import LONGEST_NAME, MISSING_WORDS, join_texts, pc, to_text

_FEATURES = (16, 128)  # fewest and most
_MOST_TERMS = 20_000
_MOST_FITTED = 50_000  # texts that a vocabulary is made from; a larger table is sampled
_AT_ONCE = 4096  # texts
_LONGEST_TEXT = 1 << 20  # characters
_LONGEST_WORD = 12  # mean; longer words are sentences of a language without spaces
_FEW_TEXTS = 100  # distinct ones, which are categories
_FEWEST_WORDS = 3  # median per cell from which many distinct values are text


class _TextFeatures:
    """Base class of the conversions of text."""

    name: str
    n_features: int  # of a text, without the indicator of missing ones
    n_missing: int

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features this column gives."""
        names = [f"{self.name} text {number + 1}" for number in range(self.n_features)]
        return tuple(names + [f"{self.name} missing"] * (self.n_missing > 0))

    def describe(self, features: NDArray[np.float32]) -> str:
        """Describe the cell that these features come from, which they do not determine."""
        return "text"


@dataclass(frozen=True, kw_only=True, eq=False)
class TextColumn(_TextFeatures):
    """The conversion of text: TF-IDF of words and pairs of words, reduced to few features.

    A missing text has zeros. `idf` has the weights of the terms and `components` the directions of
    the features, shape (features, terms).
    """

    kind: ClassVar[str] = "text"
    name: str
    terms: tuple[str, ...]
    analyzer: str  # "word", or "char" for languages without spaces
    idf: NDArray[np.float32]
    components: NDArray[np.float32]
    n_missing: int = 0

    def __post_init__(self) -> None:
        if self.analyzer not in _ANALYZERS or self.n_missing < 0:
            raise ValueError(f"column {self.name!r} has an unknown kind of terms")
        if not self.terms or not all(isinstance(term, str) for term in self.terms):
            raise TypeError(f"column {self.name!r} has a term that is not text")
        if len(set(self.terms)) != len(self.terms) or self.idf.shape != (len(self.terms),):
            raise ValueError(f"column {self.name!r} has repeated terms or lacks weights")
        if self.components.ndim != 2 or self.components.shape[1] != len(self.terms):
            raise ValueError(f"column {self.name!r} has components of other terms")
        if not (np.isfinite(self.idf).all() and np.isfinite(self.components).all()):
            raise ValueError(f"column {self.name!r} has numbers that are out of range")

    @property
    def n_features(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of features of a text, without the indicator of missing ones."""
        return len(self.components)

    def write(self, column: pa.ChunkedArray, features: NDArray[np.float32], source: str) -> None:
        """Write the features of the column into a matrix of shape (rows, features)."""
        vectoriser = _vectoriser(self.analyzer, vocabulary=list(self.terms))
        vectoriser.idf_ = self.idf
        components = self.components.T
        for where, texts in _parts(self, column, features, source):
            features[where, : self.n_features] = vectoriser.transform(texts) @ components

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON, without `arrays`."""
        return {
            "name": self.name,
            "terms": list(self.terms),
            "analyzer": self.analyzer,
            "n_missing": self.n_missing,
        }

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The arrays that a model file has beside the plain values."""
        return {"idf": self.idf, "components": self.components}


@dataclass(frozen=True, kw_only=True)
class EmbeddingColumn(_TextFeatures):
    """The conversion of text by a model of sentence embeddings, in a folder of the user's.

    The features are the mean of the vectors of all tokens, scaled to length 1. A model file has
    the folder and a checksum of the weights, not the weights.
    """

    kind: ClassVar[str] = "embedding"
    arrays: ClassVar[Mapping[str, NDArray[np.float32]]] = {}
    name: str
    model: str
    sha256: str
    n_features: int
    n_missing: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not isinstance(self.sha256, str):
            raise TypeError(f"column {self.name!r} names no model")
        if not isinstance(self.n_features, int) or self.n_features < 1 or self.n_missing < 0:
            raise ValueError(f"column {self.name!r} has numbers that are out of range")

    to_dict = asdict

    def write(self, column: pa.ChunkedArray, features: NDArray[np.float32], source: str) -> None:
        """Write the features of the column into a matrix of shape (rows, features)."""
        embedder = load_embedder(self.model)
        if embedder.sha256 != self.sha256:
            raise InvalidInput(
                f"The text model in {self.model} must be the one that the classifier was trained "
                f"with, for column {self.name!r}. Its weights differ: pass the folder of that "
                "model as text_model= (--text-model)."
            )
        for where, texts in _parts(self, column, features, source):
            features[where, : self.n_features] = embedder.embed(texts)


def read_texts(
    parts: Iterable[tuple[int, pa.ChunkedArray]], name: str, source: str, *, most_bytes: float
) -> pa.Array:
    """Read a column as stripped text, with null for missing values, in a file if it is large."""

    def cleaned() -> Iterator[pa.Array]:
        for first, cells in parts:
            with counting_from(first):
                yield _clean(cells, name, source)

    return join_texts(cleaned(), most_bytes=most_bytes)


def fit_text(
    text: pa.Array, name: str, *, text_model: str | Path | None = None
) -> TextColumn | EmbeddingColumn | None:
    """Fit the conversion of a column of text; None if every cell is empty."""
    n_known = len(text) - int(text.null_count)
    if not n_known:
        return None
    if text_model is not None:
        embedder = load_embedder(text_model)
        return EmbeddingColumn(
            name=name,
            model=str(text_model),
            sha256=embedder.sha256,
            n_features=embedder.n_features,
            n_missing=text.null_count,
        )
    chosen = np.arange(min(n_known, _MOST_FITTED))
    if n_known > _MOST_FITTED:
        chosen = np.sort(np.random.default_rng(0).choice(n_known, _MOST_FITTED, replace=False))
    texts, n_before = list[str](), 0
    for known in _known_parts(text):
        where = slice(*np.searchsorted(chosen, (n_before, n_before + len(known))))
        texts += known.take(pa.array(chosen[where] - n_before)).to_pylist()
        n_before += len(known)
    words = sum(len(cell.split()) for cell in texts)
    has_spaces = sum(map(len, texts)) <= (_LONGEST_WORD + 1) * words
    attempts = [("word", 2), ("word", 1)] if has_spaces else []
    for analyzer, min_df in (*attempts, ("char", 1)):
        vectoriser = _vectoriser(analyzer, min_df=min_df, max_features=_MOST_TERMS)
        try:
            counts = vectoriser.fit_transform(texts)
        except ValueError:  # no word occurs in two texts, or there is no word
            continue
        return TextColumn(
            name=name,
            terms=tuple(vectoriser.get_feature_names_out().tolist()),
            analyzer=analyzer,
            idf=vectoriser.idf_.astype(np.float32),
            components=main_directions(counts, n_directions_for(len(texts))),
            n_missing=text.null_count,
        )
    raise AssertionError("a text that is not empty has characters")


def reads_as_text(text: pa.Array) -> bool:
    """Check whether a column holds texts of several words, most of them different.

    Columns of short codes and names are not text, even if all are different.
    """
    seen, n_cells = set[str](), np.zeros(2 * _FEWEST_WORDS + 1, dtype=np.int64)
    for known in _known_parts(text):
        if (pc.max(pc.utf8_length(known)).as_py() or 0) > LONGEST_NAME:
            return True
        if len(seen) <= _FEW_TEXTS:
            seen.update(pc.unique(known).to_pylist())
        n_words = pc.list_value_length(pc.utf8_split_whitespace(known))
        n_of_letters = pc.count_substring_regex(known, r"\p{L}+")  # dates and 1 234 567 have few
        fewer = np.asarray(pc.min_element_wise(n_words, n_of_letters), dtype=np.int64)
        n_cells += np.bincount(np.minimum(fewer, len(n_cells) - 1), minlength=len(n_cells))
    n = int(n_cells.sum())
    if len(seen) <= min(_FEW_TEXTS, n / 2):
        return False
    middle = np.searchsorted(np.cumsum(n_cells), [(n - 1) // 2, n // 2], side="right")
    return float(middle.mean()) >= _FEWEST_WORDS  # the median


def _known_parts(text: pa.Array) -> Iterator[pa.Array]:
    """Yield the texts that are not missing, in parts."""
    for rows in parts_of(len(text)):
        yield text[rows.start : rows.stop].drop_null()


def n_directions_for(n_examples: int) -> int:
    """Choose the number of features to which counts are reduced: the square root, 16 to 128.

    Examples
    --------
    >>> [n_directions_for(n) for n in (100, 2500, 1_000_000)]
    [16, 50, 128]
    """
    return int(np.clip(round(n_examples**0.5), *_FEATURES))


def main_directions(counts: Any, n_directions: int) -> NDArray[np.float32]:
    """Compute the first right singular vectors of a sparse matrix, shape (directions, columns)."""
    n_columns = counts.shape[1]
    n_directions = min(n_directions, *counts.shape)
    if n_directions == n_columns:
        return np.eye(n_columns, dtype=np.float32)  # there is nothing to reduce
    from sklearn.utils import extmath  # loads much of scikit-learn

    _, _, directions = extmath.randomized_svd(counts, n_directions, n_iter=4, random_state=0)
    return np.ascontiguousarray(directions, dtype=np.float32)


_ANALYZERS: dict[str, dict[str, Any]] = {
    "word": {"analyzer": "word", "ngram_range": (1, 2)},
    "char": {"analyzer": "char", "ngram_range": (1, 3)},
}


def _vectoriser(analyzer: str, **options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer  # loads much of scikit-learn

    return TfidfVectorizer(**_ANALYZERS[analyzer], sublinear_tf=True, dtype=np.float32, **options)


def _clean(cells: pa.ChunkedArray, name: str, source: str) -> pa.Array:
    """Convert a column to stripped text, with null for missing values."""
    text = to_text(cells, name, source, longest=_LONGEST_TEXT, advice="Shorten it.")
    missing = pc.is_in(text, value_set=pa.array(MISSING_WORDS, pa.large_string()))
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), text)


def _parts(
    column: TextColumn | EmbeddingColumn,
    cells: pa.ChunkedArray,
    features: NDArray[np.float32],
    source: str,
) -> Iterator[tuple[NDArray[np.int64], list[str]]]:
    """Yield the rows with a text, and their texts, in parts; missing ones are filled in."""
    text = _clean(cells, column.name, source)
    is_known = ~np.asarray(text.is_null())
    features[:] = 0
    if column.n_missing:
        features[:, -1] = ~is_known
    rows = np.flatnonzero(is_known)
    for start in range(0, len(rows), _AT_ONCE):
        where = rows[start : start + _AT_ONCE]
        yield where, text.take(pa.array(where)).to_pylist()


class Embedder:
    """A model of sentence embeddings that is read from a folder as Hugging Face writes it."""

    def __init__(self, folder: Path) -> None:
        try:  # by name: type checkers would spend a quarter of their time on its types
            transformers: Any = importlib.import_module("transformers")
        except ImportError:
            raise InvalidInput(
                "text_model (--text-model) needs the package transformers: "
                "pip install 'naysay[text]'."
            ) from None
        weights = folder / "model.safetensors"
        if not weights.is_file() or not (folder / "config.json").is_file():
            raise InvalidInput(
                "text_model (--text-model) must be the folder of a transformers model, with "
                f"config.json, model.safetensors and a tokenizer. {folder} has no such files."
            )
        with weights.open("rb") as file:
            self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        logging = transformers.utils.logging
        shows_bar = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # it is drawn even where there is no terminal
        try:
            options = {"local_files_only": True, "trust_remote_code": False}
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, **options)
            self._model: Any = transformers.AutoModel.from_pretrained(
                folder, use_safetensors=True, **options
            )
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInput(
                f"text_model (--text-model) must be the folder of a transformers model. {folder} "
                f"cannot be read: {shorten(str(error))}."
            ) from None
        finally:
            if shows_bar:
                logging.enable_progress_bar()
        self._model.eval().requires_grad_(False)
        self.n_features = int(self._model.config.hidden_size)
        longest = getattr(self._model.config, "max_position_embeddings", 512)
        self._longest = min(256, longest, self._tokenizer.model_max_length)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Compute the mean of the token vectors of each text, scaled to length 1."""
        vectors = np.empty((len(texts), self.n_features), dtype=np.float32)
        order = np.argsort([len(text) for text in texts])  # texts of one batch are of one length
        for part in np.array_split(order, max(1, len(texts) // 32)):
            tokens = self._tokenizer(
                [texts[index] for index in part],
                padding=True,
                truncation=True,
                max_length=self._longest,
                return_tensors="pt",
            )
            hidden = self._model(**tokens).last_hidden_state.numpy()
            mask = tokens["attention_mask"].numpy()[:, :, None]
            mean = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
            vectors[part] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors


@lru_cache(maxsize=1)  # a table has one model, and several columns may use it
def load_embedder(folder: str | Path) -> Embedder:
    """Read a model of sentence embeddings from a folder; nothing is downloaded."""
    return Embedder(Path(folder))
