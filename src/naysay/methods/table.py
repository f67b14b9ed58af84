"""METHODS: all methods for learning from complementary labels, by name.

This is the only place where a string selects behaviour. To add a method, add its loss to
`naysay.functional` and `naysay.losses`, and an entry here.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
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


def _with_transition(make: Callable[[TransitionMatrix], nn.Module]) -> dict[str, Any]:
    """Declare that the loss uses Q, and construct it."""

    def make_loss(setting: Setting) -> nn.Module:
        return make(setting.Q)

    return {"needs_transition": True, "make_loss": make_loss}


def _with_prior(make: Callable[[TransitionMatrix, Tensor], nn.Module]) -> dict[str, Any]:
    """Declare that the loss uses the class prior, and construct it from Q and the prior."""

    def make_loss(setting: Setting) -> nn.Module:
        if setting.prior is None:
            raise InvalidInput(
                "This method needs the class prior. Pass Setting(Q=Q, prior=...), for example with "
                "the prior that naysay.estimation.class_prior estimates."
            )
        return make(setting.Q, setting.prior)

    return {"needs_prior": True, "make_loss": make_loss}


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="forward",
            summary="Predicts the class, and through Q the given label, with the cross-entropy.",
            when="First choice for any transition matrix.",
            source="Yu et al. 2018",
            make_evidence_loss=losses.LikelihoodLoss,
            **_with_transition(losses.ForwardCrossEntropy),
        ),
        Method(
            name="forward-mse",
            summary="Like forward, with the squared error, which is bounded.",
            when="Q is known, and some labels are wrong.",
            source="Yu et al. 2018",
            **_with_transition(losses.ForwardSquaredError),
        ),
        Method(
            name="forward-mae",
            summary="Like forward, with the absolute error, which is bounded and slow to train.",
            when="Q is known, there are few classes, and many labels are wrong.",
            source="Yu et al. 2018; Ghosh et al. 2017",
            **_with_transition(losses.ForwardAbsoluteError),
        ),
        Method(
            name="forward-gce",
            summary="Like forward, with the generalised cross-entropy, a compromise of the two.",
            when="Q is known, and some labels are wrong. It trains faster than forward-mae.",
            source="Yu et al. 2018; Zhang & Sabuncu 2018",
            **_with_transition(losses.ForwardGeneralisedCrossEntropy),
        ),
        Method(
            name="pc",
            summary="Compares each class with the excluded one.",
            when="Uniform labels. The first published method, for comparison.",
            source="Ishida et al. 2017",
            make_loss=lambda setting: losses.PairwiseComparison(),
        ),
        Method(
            name="ova",
            summary="Solves a binary problem for each class, with the sigmoid loss.",
            when="Uniform labels, for comparison.",
            source="Ishida et al. 2017",
            make_loss=lambda setting: losses.OneVersusAll(),
        ),
        Method(
            name="pl",
            summary="Treats the mean of all other classes as the candidate.",
            when="A baseline from learning with partial labels, for comparison.",
            source="Cour et al. 2011",
            make_loss=lambda setting: losses.PartialLabel(),
        ),
        Method(
            name="ml",
            summary="Treats all other classes as true labels.",
            when="A baseline from multi-label learning, for comparison.",
            source="Read et al. 2011",
            make_loss=lambda setting: losses.MultiLabel(),
        ),
        Method(
            name="backward",
            summary="Estimates the risk on true labels without bias, with the inverse of Q.",
            when="Small or linear models and an invertible Q. Flexible networks overfit it.",
            source="Ishida et al. 2019; Patrini et al. 2017",
            **_with_transition(losses.BackwardCrossEntropy),
        ),
        Method(
            name="free",
            summary="Like backward, in the closed form for uniform labels.",
            when="Uniform labels and small or linear models.",
            source="Ishida et al. 2019",
            make_loss=lambda setting: losses.BackwardCrossEntropy(
                TransitionMatrix.uniform(setting.Q.n_classes)
            ),
        ),
        Method(
            name="nn",
            summary="Like backward, with a non-negative risk for each true class.",
            when="Like backward, for networks. Use large batches.",
            source="Ishida et al. 2019",
            needs_transition=True,
            **_with_prior(lambda Q, prior: losses.NonNegativeRisk(Q, prior=prior)),
        ),
        Method(
            name="ga",
            summary="Like backward, with gradient ascent where the risk of a class is negative.",
            when="Like nn, if that still overfits.",
            source="Ishida et al. 2019",
            needs_transition=True,
            **_with_prior(lambda Q, prior: losses.GradientAscentRisk(Q, prior=prior)),
        ),
        Method(
            name="scl-nl",
            summary="Lowers the probability of the excluded class: -log(1 - p).",
            when="Uniform labels, for which it equals forward.",
            source="Chou et al. 2020",
            make_loss=lambda setting: losses.SurrogateLog(),
        ),
        Method(
            name="scl-exp",
            summary="Lowers the probability of the excluded class: exp(p).",
            when="Uniform labels, some of which are wrong. The loss is bounded.",
            source="Chou et al. 2020",
            make_loss=lambda setting: losses.SurrogateExponential(),
        ),
        Method(
            name="mcl-mae",
            summary="Applies the absolute error to the probability of the remaining classes.",
            when="Several labels per example, some of which are wrong, and few classes.",
            source="Feng et al. 2020",
            takes_several=True,
            make_loss=lambda setting: losses.SeveralLabelsAbsoluteError(),
        ),
        Method(
            name="mcl-exp",
            summary="Applies the exponential loss to the probability of the remaining classes.",
            when="Several labels per example, chosen uniformly, some of which are wrong.",
            source="Feng et al. 2020",
            takes_several=True,
            make_loss=lambda setting: losses.SeveralLabelsExponential(),
        ),
        Method(
            name="mcl-log",
            summary="Applies the log loss to the probability of the remaining classes.",
            when="Several labels per example, chosen uniformly.",
            source="Feng et al. 2020",
            takes_several=True,
            make_loss=lambda setting: losses.SeveralLabelsLog(),
        ),
        Method(
            name="l-uw",
            summary="Applies the cross-entropy to the softmax of 1 - p.",
            when="Uniform labels, for comparison.",
            source="Gao & Zhang 2021",
            make_loss=lambda setting: losses.ReversedSoftmax(),
        ),
        Method(
            name="l-w",
            summary="Like l-uw, with examples weighted by 1 - p of the excluded class.",
            when="Uniform labels, for comparison.",
            source="Gao & Zhang 2021",
            make_loss=lambda setting: losses.WeightedReversedSoftmax(),
        ),
        Method(
            name="op",
            summary="Applies the cross-entropy to the negated logits, which preserves their order.",
            when="Uniform labels, if only the predicted class matters.",
            source="Liu et al. 2023",
            make_loss=lambda setting: losses.OrderPreserving(),
        ),
        Method(
            name="op-w",
            summary="Like op, with more weight on examples whose excluded class is most likely.",
            when="Uniform labels, for comparison.",
            source="Liu et al. 2023",
            make_loss=lambda setting: losses.WeightedOrderPreserving(),
        ),
        Method(
            name="scarce",
            summary="Separates each class from the rest, with negative and unlabelled examples.",
            when="Some labels are more frequent than others, independently of the true class.",
            source="Wang et al. 2024",
            **_with_prior(lambda Q, prior: losses.OneVersusRestRisk(prior)),
        ),
        Method(
            name="cpe-i",
            summary="Predicts the given label. The nearest row of Q decides the class.",
            when="For comparison. Training does not use Q, so Q can be replaced afterwards.",
            source="Lin & Lin 2023",
            **_with_transition(losses.ComplementaryCrossEntropy),
        ),
        Method(
            name="cpe-f",
            summary="Trains like forward. The nearest row of Q decides the class.",
            when="Like forward. Its authors find it more robust to noisy labels.",
            source="Lin & Lin 2023",
            **_with_transition(losses.NearestRowForwardCrossEntropy),
        ),
        Method(
            name="cpe-t",
            summary="Like cpe-f, with a Q that is trained as well, starting from the given one.",
            when="Q is known approximately. The trained matrix is learned_transition_.",
            source="Lin & Lin 2023",
            **_with_transition(losses.TrainedForwardCrossEntropy),
        ),
        Method(
            name="pocr",
            summary="Like forward, with other views consistent with the posterior given the label.",
            when="Like forward, for images and many epochs, which take three times as long.",
            source="Wang et al. 2021",
            needs_augmentation=True,
            **_with_transition(losses.PartialOutputConsistency),
        ),
        Method(
            name="two-views",
            summary="Like forward, with the mean posterior of two views as target; new in naysay.",
            when="Like forward, for images, without dropout. Needs many epochs of twice the time.",
            source="Wang et al. 2021; Berthelot et al. 2019",
            make_evidence_loss=losses.TwoViewsLikelihood,
            needs_augmentation=True,
            **_with_transition(losses.TwoViews),
        ),
        Method(
            name="weak-to-strong",
            summary="Like forward; a strongly augmented view learns from a weakly augmented one.",
            when="First choice for photos, without dropout. Needs many epochs of twice the time.",
            source="Wang et al. 2021; Sohn et al. 2020",
            make_evidence_loss=partial(losses.TwoViewsLikelihood, target="first"),
            needs_augmentation=True,
            needs_strong_view=True,
            **_with_transition(partial(losses.TwoViews, target="first")),
        ),
    )
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
