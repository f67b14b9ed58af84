"""METHODS: all methods for learning from complementary labels, by name.

This is the only place where a string selects behaviour. To add a method, add its loss to
`naysay.functional` and `naysay.losses`, and an entry here.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from naysay import losses
from naysay._base.errors import InvalidInput
from naysay.methods.references import REFERENCES, linked
from naysay.transition import TransitionMatrix

__all__ = ["METHODS", "Method", "Setting", "find_method", "markdown_references", "markdown_table"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a loss is constructed from: the matrix Q, and the class prior if the method needs it."""

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
        """What the method needs or accepts besides one label per example, in words."""
        facts = {
            "Q": self.needs_transition,
            "class prior": self.needs_prior,
            "takes several labels": self.takes_several,
            "takes evidence of any kind": self.takes_evidence,
            "augmentation": self.needs_augmentation,
        }
        return ", ".join(word for word, applies in facts.items() if applies)


def _without_transition(make: Callable[[], nn.Module]) -> Callable[[Setting], nn.Module]:
    """Construct a loss that uses neither Q nor the class prior."""
    return lambda setting: make()


def _with_transition(
    make: Callable[[TransitionMatrix], nn.Module],
) -> Callable[[Setting], nn.Module]:
    """Construct a loss that uses Q."""
    return lambda setting: make(setting.Q)


def _with_prior(
    make: Callable[[TransitionMatrix, Tensor], nn.Module],
) -> Callable[[Setting], nn.Module]:
    """Construct a loss that uses the class prior, and possibly Q."""

    def make_loss(setting: Setting) -> nn.Module:
        if setting.prior is None:
            raise InvalidInput(
                "This method needs the class prior. Pass Setting(Q=Q, prior=...), for example with "
                "the prior that naysay.estimation.class_prior estimates."
            )
        return make(setting.Q, setting.prior)

    return make_loss


_YU = "Yu et al. 2018"
_ISHIDA_2017 = "Ishida et al. 2017"
_ISHIDA_2019 = "Ishida et al. 2019"
_CHOU = "Chou et al. 2020"
_FENG = "Feng et al. 2020"
_GAO = "Gao & Zhang 2021"
_LIU = "Liu et al. 2023"
_LIN = "Lin & Lin 2023"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="forward",
            summary="Predicts the label given through Q, with the cross-entropy.",
            when="First choice, whatever the habit of the annotators.",
            source=_YU,
            needs_transition=True,
            make_evidence_loss=losses.LikelihoodLoss,
            make_loss=_with_transition(losses.ForwardCrossEntropy),
        ),
        Method(
            name="forward-mse",
            summary="The same with the squared error, which is bounded.",
            when="Q is known, and some labels are wrong.",
            source=_YU,
            needs_transition=True,
            make_loss=_with_transition(losses.ForwardSquaredError),
        ),
        Method(
            name="forward-mae",
            summary="The same with the absolute error, bounded and slow to learn.",
            when="Q is known, few classes, many labels are wrong.",
            source=f"{_YU}; Ghosh et al. 2017",
            needs_transition=True,
            make_loss=_with_transition(losses.ForwardAbsoluteError),
        ),
        Method(
            name="forward-gce",
            summary="The same with the generalised cross-entropy, between both.",
            when="Q is known, and some labels are wrong; learns faster than forward-mae.",
            source=f"{_YU}; Zhang & Sabuncu 2018",
            needs_transition=True,
            make_loss=_with_transition(losses.ForwardGeneralisedCrossEntropy),
        ),
        Method(
            name="pc",
            summary="Compares each class with the excluded one.",
            when="Uniform labels; the first published method, to compare with.",
            source=_ISHIDA_2017,
            make_loss=_without_transition(losses.PairwiseComparison),
        ),
        Method(
            name="ova",
            summary="Decides for each class on its own, with the sigmoid loss.",
            when="Uniform labels; to compare with.",
            source=_ISHIDA_2017,
            make_loss=_without_transition(losses.OneVersusAll),
        ),
        Method(
            name="pl",
            summary="Takes the mean of all other classes as the candidate.",
            when="A baseline from partial labels; to compare with.",
            source="Cour et al. 2011",
            make_loss=_without_transition(losses.PartialLabel),
        ),
        Method(
            name="ml",
            summary="Takes all other classes as true.",
            when="A baseline from multi-label learning; to compare with.",
            source="Read et al. 2011",
            make_loss=_without_transition(losses.MultiLabel),
        ),
        Method(
            name="backward",
            summary="Unbiased estimate of the risk under true labels, by the inverse of Q.",
            when="Small or linear models and an invertible Q; flexible networks overfit it.",
            source=f"{_ISHIDA_2019}; Patrini et al. 2017",
            needs_transition=True,
            make_loss=_with_transition(losses.BackwardCrossEntropy),
        ),
        Method(
            name="free",
            summary="The same in closed form, as if labels were uniform.",
            when="Uniform labels and small or linear models.",
            source=_ISHIDA_2019,
            make_loss=lambda setting: losses.BackwardCrossEntropy(
                TransitionMatrix.uniform(setting.Q.n_classes)
            ),
        ),
        Method(
            name="nn",
            summary="The unbiased risk, no ordinary class of it below zero.",
            when="As backward, for networks; large batches.",
            source=_ISHIDA_2019,
            needs_transition=True,
            needs_prior=True,
            make_loss=_with_prior(lambda Q, prior: losses.NonNegativeRisk(Q, prior=prior)),
        ),
        Method(
            name="ga",
            summary="The unbiased risk, climbing back where a class is below zero.",
            when="As nn, where that still overfits.",
            source=_ISHIDA_2019,
            needs_transition=True,
            needs_prior=True,
            make_loss=_with_prior(lambda Q, prior: losses.GradientAscentRisk(Q, prior=prior)),
        ),
        Method(
            name="scl-nl",
            summary="Lowers the probability of the excluded class: -log(1 - p).",
            when="Uniform labels; equals forward there.",
            source=_CHOU,
            make_loss=_without_transition(losses.SurrogateLog),
        ),
        Method(
            name="scl-exp",
            summary="Lowers the probability of the excluded class: exp(p).",
            when="Uniform labels, some of them wrong: it is bounded.",
            source=_CHOU,
            make_loss=_without_transition(losses.SurrogateExponential),
        ),
        Method(
            name="mcl-mae",
            summary="Absolute error on the probability of all classes left.",
            when="Several labels per example, some of them wrong; few classes.",
            source=_FENG,
            takes_several=True,
            make_loss=_without_transition(losses.SeveralLabelsAbsoluteError),
        ),
        Method(
            name="mcl-exp",
            summary="Exponential loss on the probability of all classes left.",
            when="Several labels per example, chosen uniformly, some of them wrong.",
            source=_FENG,
            takes_several=True,
            make_loss=_without_transition(losses.SeveralLabelsExponential),
        ),
        Method(
            name="mcl-log",
            summary="Log loss on the probability of all classes left.",
            when="Several labels per example, chosen uniformly.",
            source=_FENG,
            takes_several=True,
            make_loss=_without_transition(losses.SeveralLabelsLog),
        ),
        Method(
            name="l-uw",
            summary="Cross-entropy on the softmax of 1 - p.",
            when="Uniform labels; to compare with.",
            source=_GAO,
            make_loss=_without_transition(losses.ReversedSoftmax),
        ),
        Method(
            name="l-w",
            summary="The same, examples weighted by 1 - p of the excluded class.",
            when="Uniform labels; to compare with.",
            source=_GAO,
            make_loss=_without_transition(losses.WeightedReversedSoftmax),
        ),
        Method(
            name="op",
            summary="Cross-entropy of the reversed logits: keeps the order of the classes.",
            when="Uniform labels, when only the predicted class matters.",
            source=_LIU,
            make_loss=_without_transition(losses.OrderPreserving),
        ),
        Method(
            name="op-w",
            summary="The same, weighted towards examples whose excluded class leads.",
            when="Uniform labels; to compare with.",
            source=_LIU,
            make_loss=_without_transition(losses.WeightedOrderPreserving),
        ),
        Method(
            name="scarce",
            summary="Each class against the rest, from negative and unlabelled examples.",
            when="Some labels are given more often than others, whatever the true class.",
            source="Wang et al. 2024",
            needs_prior=True,
            make_loss=_with_prior(lambda Q, prior: losses.OneVersusRestRisk(prior)),
        ),
        Method(
            name="cpe-i",
            summary="Predicts the label given; decides by the nearest row of Q.",
            when="To compare with; Q is used to decide only, so another can be tried later.",
            source=_LIN,
            needs_transition=True,
            make_loss=_with_transition(losses.ComplementaryCrossEntropy),
        ),
        Method(
            name="cpe-f",
            summary="Trains as forward; decides by the nearest row of Q.",
            when="As forward; its source finds it sturdier where labels are noisy.",
            source=_LIN,
            needs_transition=True,
            make_loss=_with_transition(losses.NearestRowForwardCrossEntropy),
        ),
        Method(
            name="cpe-t",
            summary="The same with a Q that is trained too, from the one given.",
            when="Q is known roughly; the one learned is learned_transition_.",
            source=_LIN,
            needs_transition=True,
            make_loss=_with_transition(losses.TrainedForwardCrossEntropy),
        ),
        Method(
            name="pocr",
            summary="As forward, and other views must agree with what the label leaves.",
            when="As forward, for images and many epochs, each of which takes three times as long.",
            source="Wang et al. 2021",
            needs_transition=True,
            needs_augmentation=True,
            make_loss=_with_transition(losses.PartialOutputConsistency),
        ),
        Method(
            name="two-views",
            summary="Naysay's own: as forward, towards what two views together make of the label.",
            when="As forward, for images, many epochs and no dropout; epochs take twice as long.",
            source="Wang et al. 2021; Berthelot et al. 2019",
            needs_transition=True,
            make_evidence_loss=losses.TwoViewsLikelihood,
            needs_augmentation=True,
            make_loss=_with_transition(losses.TwoViews),
        ),
        Method(
            name="weak-to-strong",
            summary="As forward, and a view changed much learns what one changed little tells.",
            when="First choice for photos; many epochs, no dropout. Epochs take twice as long.",
            source="Wang et al. 2021; Sohn et al. 2020",
            needs_transition=True,
            make_evidence_loss=partial(losses.TwoViewsLikelihood, target="first"),
            needs_augmentation=True,
            needs_strong_view=True,
            make_loss=_with_transition(partial(losses.TwoViews, target="first")),
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
