"""METHODS: all methods for learning from complementary labels, by name.

This is the only place where a string selects behaviour. To add a method, add its loss to
`naysay.functional` and `naysay.losses`, to `LOSSES` here, and its description to methods.csv.
"""

import csv
import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from importlib.resources import files
from typing import Any

from torch import Tensor, nn

from naysay import losses
from naysay._base.errors import InvalidInput
from naysay.methods.references import REFERENCES, linked
from naysay.transition import TransitionMatrix


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Arguments that losses are made from: the matrix Q, and the class prior if it is needed."""

    Q: TransitionMatrix
    prior: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method for learning from complementary labels.

    How a method predicts is defined by its loss, see `naysay.losses`.

    Parameters
    ----------
    name : str
    summary : str
        What the method does, in one sentence.
    when : str
        When to use it, in one sentence.
    source : str
        Keys of `naysay.methods.references.REFERENCES`, separated by semicolons.
    make_loss : callable
        Constructs the loss from a `Setting`.
    needs_transition : bool, default=False
        The loss uses the transition matrix Q.
    needs_prior : bool, default=False
        The loss uses the class prior.
    takes_several : bool, default=False
        The loss accepts several labels per example, as a bool tensor of shape (N, K).
    make_evidence_loss : callable, optional
        Constructs the same loss for evidence of any kind, given as a likelihood of each class as in
        `naysay.functional.likelihood_loss`.
    needs_augmentation : bool, default=False
        The method learns from several augmented views of each example.
    needs_strong_view : bool, default=False
        Views after the first must be strongly augmented. If the method also accepts evidence, it
        trains the networks for cross-fitting when Q is refined.
    """

    name: str
    summary: str
    when: str
    source: str
    make_loss: Callable[[Setting], nn.Module]
    needs_transition: bool = False
    needs_prior: bool = False
    takes_several: bool = False
    make_evidence_loss: Callable[[], nn.Module] | None = None
    needs_augmentation: bool = False
    needs_strong_view: bool = False

    @property
    def takes_evidence(self) -> bool:
        """Whether the method accepts evidence of any kind: several labels, or a Q per annotator."""
        return self.make_evidence_loss is not None

    @property
    def needs(self) -> str:
        """List in words the inputs that are needed or accepted besides one label per example."""
        facts = {
            "Q": self.needs_transition,
            "class prior": self.needs_prior,
            "accepts several labels": self.takes_several,
            "accepts any evidence": self.takes_evidence,
            "augmentation": self.needs_augmentation,
        }
        return ", ".join(word for word, applies in facts.items() if applies)

    def to_dict(self) -> dict[str, Any]:
        """List all facts about the method, as plain values for JSON."""
        plain = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if not each.name.startswith("make_")
        }
        keys = [key for key in self.source.split("; ") if key in REFERENCES]
        references = [str(REFERENCES[key]) for key in keys]
        return {**plain, "takes_evidence": self.takes_evidence, "references": references}


def _plain(kind: Callable[..., nn.Module], **options: Any) -> dict[str, Any]:
    """Declare a loss that needs neither Q nor the class prior."""

    def make_loss(_: Setting) -> nn.Module:
        return kind()

    return {"make_loss": make_loss, **options}


def _with_transition(
    kind: Callable[[TransitionMatrix], nn.Module], **options: Any
) -> dict[str, Any]:
    """Declare that the loss uses Q, and construct it."""

    def make_loss(setting: Setting) -> nn.Module:
        return kind(setting.Q)

    return {"needs_transition": True, "make_loss": make_loss, **options}


def _with_prior(
    kind: Callable[[TransitionMatrix, Tensor], nn.Module], **options: Any
) -> dict[str, Any]:
    """Declare that the loss uses the class prior, and construct it from Q and the prior."""

    def make_loss(setting: Setting) -> nn.Module:
        if setting.prior is None:
            raise InvalidInput(
                "This method needs the class prior. Pass Setting(Q=Q, prior=...), for example with "
                "the prior that naysay.estimation.class_prior estimates."
            )
        return kind(setting.Q, setting.prior)

    return {"needs_prior": True, "make_loss": make_loss, **options}


def _make_free(setting: Setting) -> nn.Module:
    return losses.BackwardCrossEntropy(TransitionMatrix.uniform(setting.Q.n_classes))


#: What each method needs, and how its loss is constructed.
LOSSES: dict[str, dict[str, Any]] = {
    "forward": _with_transition(
        losses.ForwardCrossEntropy, make_evidence_loss=losses.LikelihoodLoss
    ),
    "forward-mse": _with_transition(losses.ForwardSquaredError),
    "forward-mae": _with_transition(losses.ForwardAbsoluteError),
    "forward-gce": _with_transition(losses.ForwardGeneralisedCrossEntropy),
    "pc": _plain(losses.PairwiseComparison),
    "ova": _plain(losses.OneVersusAll),
    "pl": _plain(losses.PartialLabel),
    "ml": _plain(losses.MultiLabel),
    "backward": _with_transition(losses.BackwardCrossEntropy),
    "free": {"make_loss": _make_free},
    "nn": _with_prior(
        lambda Q, prior: losses.NonNegativeRisk(Q, prior=prior), needs_transition=True
    ),
    "ga": _with_prior(
        lambda Q, prior: losses.GradientAscentRisk(Q, prior=prior), needs_transition=True
    ),
    "scl-nl": _plain(losses.SurrogateLog),
    "scl-exp": _plain(losses.SurrogateExponential),
    "mcl-mae": _plain(losses.SeveralLabelsAbsoluteError, takes_several=True),
    "mcl-exp": _plain(losses.SeveralLabelsExponential, takes_several=True),
    "mcl-log": _plain(losses.SeveralLabelsLog, takes_several=True),
    "l-uw": _plain(losses.ReversedSoftmax),
    "l-w": _plain(losses.WeightedReversedSoftmax),
    "op": _plain(losses.OrderPreserving),
    "op-w": _plain(losses.WeightedOrderPreserving),
    "scarce": _with_prior(lambda Q, prior: losses.OneVersusRestRisk(prior)),
    "cpe-i": _with_transition(losses.ComplementaryCrossEntropy),
    "cpe-f": _with_transition(losses.NearestRowForwardCrossEntropy),
    "cpe-t": _with_transition(losses.TrainedForwardCrossEntropy),
    "pocr": _with_transition(losses.PartialOutputConsistency, needs_augmentation=True),
    "two-views": _with_transition(
        losses.TwoViews, make_evidence_loss=losses.TwoViewsLikelihood, needs_augmentation=True
    ),
    "weak-to-strong": _with_transition(
        partial(losses.TwoViews, target="first"),
        make_evidence_loss=partial(losses.TwoViewsLikelihood, target="first"),
        needs_augmentation=True,
        needs_strong_view=True,
    ),
}

with files("naysay.methods").joinpath("methods.csv").open(encoding="utf-8") as _file:
    #: All methods by name, in the order of methods.csv, which describes them.
    METHODS: dict[str, Method] = {
        row["name"]: Method(**row, **LOSSES[row["name"]])
        for row in csv.DictReader(_file, delimiter=";")
    }


def markdown_table(methods: Iterable[Method] = METHODS.values()) -> str:
    """Format the methods as a Markdown table for the documentation."""
    lines = ["| method | what it does | when to use it | needs | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{each.name}` | {each.summary} | {each.when} | {each.needs} | {linked(each.source)} |"
        for each in methods
    ]
    return "\n".join(lines) + "\n"


def markdown_references() -> str:
    """Format the publications that the methods come from as a Markdown list."""
    return "".join(
        f"- **{key}**: {each.authors}: *{each.title}*. {each.venue}. <{each.link}>\n"
        for key, each in REFERENCES.items()
    )


def find_method(method: str | Method) -> Method:
    """Look up a method by name; a `Method` is returned unchanged."""
    if isinstance(method, Method):
        return method
    if method in METHODS:
        return METHODS[method]
    close = difflib.get_close_matches(str(method), METHODS, n=1, cutoff=0.4)
    raise InvalidInput(
        f"Unknown method {method!r}. Known: {', '.join(METHODS)}."
        + (f" Did you mean {close[0]!r}?" if close else "")
        + " See: naysay methods"
    )
