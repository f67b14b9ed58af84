"""The publications that the methods come from.

`naysay.methods` refers to them by key, such as "Yu et al. 2018". The docstrings of
`naysay.functional` and docs/methods.md use the same links.
"""

from dataclasses import dataclass

__all__ = ["REFERENCES", "Reference", "linked"]


@dataclass(frozen=True)
class Reference:
    """A publication with a permanent link.

    The link is the DOI of the published version, or of the arXiv version if the publisher assigns
    none. If there is neither, it is the publisher's page.
    """

    authors: str
    title: str
    venue: str
    link: str

    def __str__(self) -> str:
        return f"{self.authors}: {self.title}. {self.venue}. {self.link}"


REFERENCES: dict[str, Reference] = {
    "Yu et al. 2018": Reference(
        "Yu, Liu, Gong, Tao",
        "Learning with Biased Complementary Labels",
        "ECCV 2018, 69-85",
        "https://doi.org/10.1007/978-3-030-01246-5_5",
    ),
    "Ishida et al. 2017": Reference(
        "Ishida, Niu, Hu, Sugiyama",
        "Learning from Complementary Labels",
        "NeurIPS 2017, 5639-5649",
        "https://doi.org/10.48550/arXiv.1705.07541",
    ),
    "Ishida et al. 2019": Reference(
        "Ishida, Niu, Menon, Sugiyama",
        "Complementary-Label Learning for Arbitrary Losses and Models",
        "ICML 2019, PMLR 97, 2971-2980",
        "https://doi.org/10.48550/arXiv.1810.04327",
    ),
    "Cour et al. 2011": Reference(
        "Cour, Sapp, Taskar",
        "Learning from Partial Labels",
        "JMLR 12, 1501-1536, 2011",
        "https://jmlr.org/papers/v12/cour11a.html",
    ),
    "Read et al. 2011": Reference(
        "Read, Pfahringer, Holmes, Frank",
        "Classifier Chains for Multi-label Classification",
        "Machine Learning 85, 333-359, 2011",
        "https://doi.org/10.1007/s10994-011-5256-5",
    ),
    "Patrini et al. 2017": Reference(
        "Patrini, Rozza, Menon, Nock, Qu",
        "Making Deep Neural Networks Robust to Label Noise: A Loss Correction Approach",
        "CVPR 2017",
        "https://doi.org/10.1109/CVPR.2017.240",
    ),
    "Ghosh et al. 2017": Reference(
        "Ghosh, Kumar, Sastry",
        "Robust Loss Functions under Label Noise for Deep Neural Networks",
        "AAAI 2017",
        "https://doi.org/10.48550/arXiv.1712.09482",
    ),
    "Zhang & Sabuncu 2018": Reference(
        "Zhang, Sabuncu",
        "Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels",
        "NeurIPS 2018",
        "https://doi.org/10.48550/arXiv.1805.07836",
    ),
    "Berthelot et al. 2019": Reference(
        "Berthelot, Carlini, Goodfellow, Papernot, Oliver, Raffel",
        "MixMatch: A Holistic Approach to Semi-Supervised Learning",
        "NeurIPS 2019",
        "https://doi.org/10.48550/arXiv.1905.02249",
    ),
    "Sohn et al. 2020": Reference(
        "Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, Kurakin, Zhang, Raffel",
        "FixMatch: Simplifying Semi-Supervised Learning with Consistency and Confidence",
        "NeurIPS 2020",
        "https://doi.org/10.48550/arXiv.2001.07685",
    ),
    "Chou et al. 2020": Reference(
        "Chou, Niu, Lin, Sugiyama",
        "Unbiased Risk Estimators Can Mislead: A Case Study of Learning with Complementary Labels",
        "ICML 2020, PMLR 119, 1929-1938",
        "https://doi.org/10.48550/arXiv.2007.02235",
    ),
    "Feng et al. 2020": Reference(
        "Feng, Kaneko, Han, Niu, An, Sugiyama",
        "Learning with Multiple Complementary Labels",
        "ICML 2020, PMLR 119, 3072-3081",
        "https://doi.org/10.48550/arXiv.1912.12927",
    ),
    "Gao & Zhang 2021": Reference(
        "Gao, Zhang",
        "Discriminative Complementary-Label Learning with Weighted Loss",
        "ICML 2021, PMLR 139, 3587-3597",
        "https://proceedings.mlr.press/v139/gao21d.html",
    ),
    "Wang et al. 2021": Reference(
        "Wang, Feng, Zhang",
        "Learning from Complementary Labels via Partial-Output Consistency Regularization",
        "IJCAI 2021",
        "https://doi.org/10.24963/ijcai.2021/423",
    ),
    "Liu et al. 2023": Reference(
        "Liu, Cao, Zhang, Feng, An",
        "Consistent Complementary-Label Learning via Order-Preserving Losses",
        "AISTATS 2023, PMLR 206, 8734-8748",
        "https://proceedings.mlr.press/v206/liu23g.html",
    ),
    "Lin & Lin 2023": Reference(
        "Lin, Lin",
        "Reduction from Complementary-Label Learning to Probability Estimates",
        "PAKDD 2023",
        "https://doi.org/10.1007/978-3-031-33377-4_36",
    ),
    "Wang et al. 2024": Reference(
        "Wang, Ishida, Zhang, Niu, Sugiyama",
        "Learning with Complementary Labels Revisited: The Selected-Completely-at-Random Setting "
        "Is More Practical",
        "ICML 2024, PMLR 235",
        "https://doi.org/10.48550/arXiv.2311.15502",
    ),
}


def linked(source: str) -> str:
    """Turn keys separated by semicolons into Markdown links; unknown keys stay as they are.

    Examples
    --------
    >>> linked("Liu et al. 2023; Me 2024")
    '[Liu et al. 2023](https://proceedings.mlr.press/v206/liu23g.html); Me 2024'
    """
    return "; ".join(
        f"[{key}]({REFERENCES[key].link})" if key in REFERENCES else key
        for key in source.split("; ")
    )
