"""The official data sets that are tables of numbers, one row each: USPS and the UCI sets.

No checksum of these files is published, and copies differ in spacing. The checksums of their
*values*, and the examples per class, were taken from verified copies; those of the whole Drive
file follow from its 58,509 rows in 11 classes of equal size.
"""

from functools import partial
from string import ascii_uppercase

from naysay.datasets import text
from naysay.datasets._entry import Download, Entry, OfficialFile

__all__ = ["TABLE_SETS"]

_DIGITS = tuple("0123456789")
_UCI = "https://archive.ics.uci.edu"
_UCI_LICENCE = "CC BY 4.0"

_USPS = Entry(
    name="usps",
    n_classes=10,
    n_train=7_291,
    n_test=2_007,
    files=(
        OfficialFile(
            "usps/zip.train.gz",
            also=("usps/zip.train",),
            per_class=(1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
            values_sha256="6138205f0665efa1d37c169650c462a918e4021e54a53113dddf5d90faa9896d",
        ),
        OfficialFile(
            "usps/zip.test.gz",
            also=("usps/zip.test",),
            per_class=(359, 264, 198, 166, 200, 160, 170, 147, 166, 177),
            values_sha256="8a7f90386d4ee6c4fb411c833aaf52240cc397512a0868e6a35d20251f09f511",
        ),
    ),
    downloads=tuple(
        Download(
            (
                f"https://hastie.su.domains/ElemStatLearn/datasets/zip.{part}.gz",
                f"https://web.stanford.edu/~hastie/ElemStatLearn/datasets/zip.{part}.gz",
            ),
            gives=(f"usps/zip.{part}.gz",),
        )
        for part in ("train", "test")
    ),
    reader=partial(
        text.read_tables,
        layout=text.TextLayout(256, tuple(range(10)), label_first=True, image=(1, 16, 16)),
    ),
    classes=_DIGITS,
    source="https://hastie.su.domains/ElemStatLearn/data.html",
    licence="none stated (research use)",
    citation="Y. LeCun et al.: Handwritten Digit Recognition with a Back-Propagation Network, 1990",
)


def _uci(number: int, archive: str, files: tuple[OfficialFile, ...]) -> tuple[Download, ...]:
    return (
        Download(
            (f"{_UCI}/static/public/{number}/{archive}.zip",),
            gives=tuple(file.path for file in files),
            archive="zip",
        ),
    )


def _waveform(version: int, name: str, n_features: int, file: OfficialFile) -> Entry:
    archive = f"waveform+database+generator+version+{version}"
    return Entry(
        name=name,
        n_classes=3,
        n_train=5_000,
        n_test=None,
        files=(file,),
        downloads=_uci(106 + version, archive, (file,)),
        reader=partial(
            text.read_tables, layout=text.TextLayout(n_features, (0, 1, 2), delimiter=",")
        ),
        classes=("0", "1", "2"),
        source=f"{_UCI}/dataset/{106 + version}/{archive}",
        licence=_UCI_LICENCE,
        citation="L. Breiman, J. Friedman, R. Olshen, C. Stone: Classification and Regression "
        "Trees, 1984, pages 43-49",
    )


_WAVEFORM1 = _waveform(
    1,
    "waveform1",
    21,
    OfficialFile(
        "uci/waveform.data",
        per_class=(1657, 1647, 1696),
        values_sha256="6b307b22d39b5417fec7973e5199668bbbb8c4ff11f6f7e9438355b344fddc28",
    ),
)
_WAVEFORM2 = _waveform(
    2,
    "waveform2",
    40,
    OfficialFile(
        "uci/waveform-+noise.data",
        per_class=(1692, 1653, 1655),
        values_sha256="233e6b11f38ca4df2b104623ce4bb804c06e4c458163a18ab98514c4712f07e4",
    ),
)

_SAT_FILES = (
    OfficialFile(
        "uci/sat.trn",
        per_class=(1072, 479, 961, 415, 470, 1038),
        values_sha256="8b96112ee2d3802c0e9518cc1005a691dbc65236a561a2afc33b362d91e3793a",
    ),
    OfficialFile(
        "uci/sat.tst",
        per_class=(461, 224, 397, 211, 237, 470),
        values_sha256="e3df020e2f4ac52c19fc65eb2b67d4055a4eb0001b3b67a883d7ce740fec3233",
    ),
)
_SATIMAGE = Entry(
    name="satimage",
    n_classes=6,
    n_train=4_435,
    n_test=2_000,
    files=_SAT_FILES,
    downloads=_uci(146, "statlog+landsat+satellite", _SAT_FILES),
    reader=partial(text.read_tables, layout=text.TextLayout(36, (1, 2, 3, 4, 5, 7))),
    classes=(
        *("red soil", "cotton crop", "grey soil", "damp grey soil"),
        *("soil with vegetation stubble", "very damp grey soil"),
    ),
    numbers=(1, 2, 3, 4, 5, 7),
    source=f"{_UCI}/dataset/146/statlog+landsat+satellite",
    licence=_UCI_LICENCE,
    citation="A. Srinivasan: Statlog (Landsat Satellite), UCI, 1993, doi:10.24432/C55887",
)

_PENDIGITS_FILES = (
    OfficialFile(
        "uci/pendigits.tra",
        per_class=(780, 779, 780, 719, 780, 720, 720, 778, 719, 719),
        values_sha256="66db0f9d9f31ef2f9255dc0ed9288df04d8154b2136000105c13ffa2bd78fd82",
    ),
    OfficialFile(
        "uci/pendigits.tes",
        per_class=(363, 364, 364, 336, 364, 335, 336, 364, 336, 336),
        values_sha256="e684f8b874e8117eacc84a804141f5e1f09d5e415c2389bcbfde82002a667cb7",
    ),
)
_PENDIGITS = Entry(
    name="pendigits",
    n_classes=10,
    n_train=7_494,
    n_test=3_498,
    files=_PENDIGITS_FILES,
    downloads=_uci(81, "pen+based+recognition+of+handwritten+digits", _PENDIGITS_FILES),
    reader=partial(text.read_tables, layout=text.TextLayout(16, tuple(range(10)), delimiter=",")),
    classes=_DIGITS,
    source=f"{_UCI}/dataset/81/pen+based+recognition+of+handwritten+digits",
    licence=_UCI_LICENCE,
    citation="E. Alpaydin, F. Alimoglu: Pen-Based Recognition of Handwritten Digits, UCI, 1996, "
    "doi:10.24432/C5MG6K",
)

_DRIVE_FILES = (
    OfficialFile(
        "uci/Sensorless_drive_diagnosis.txt",
        per_class=(5_319,) * 11,
        stand_in=OfficialFile(
            "uci/Sensorless_drive_diagnosis.subset2200.txt",
            per_class=(200,) * 11,
            values_sha256="4835d378eb8d4b04dde7735db1713fe69489e8fc2430689b93726fb4814cc3fd",
            note="Only 2,200 of the 58,509 rows were read (200 of each class): enough to try "
            "things out, not to repeat published numbers. naysay data fetch drive gets all.",
        ),
    ),
)
_DRIVE = Entry(
    name="drive",
    n_classes=11,
    n_train=58_509,
    n_test=None,
    files=_DRIVE_FILES,
    downloads=_uci(325, "dataset+for+sensorless+drive+diagnosis", _DRIVE_FILES),
    reader=partial(text.read_tables, layout=text.TextLayout(48, tuple(range(1, 12)))),
    classes=tuple(map(str, range(1, 12))),
    source=f"{_UCI}/dataset/325/dataset+for+sensorless+drive+diagnosis",
    licence=_UCI_LICENCE,
    citation="M. Bator: Dataset for Sensorless Drive Diagnosis, UCI, 2013, doi:10.24432/C5VP5F",
)

_LETTER_FILES = (
    OfficialFile(
        "uci/letter-recognition.data",
        per_class=(
            *(789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792),
            *(783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734),
        ),
        values_sha256="19d01463ecc357bb375d9a1fcffee59e2009c3421aa3960accba71db597f0260",
        note="One file without a split. Customary: the first 16,000 rows train, the last 4,000 "
        "test, that is d.train.take(slice(16_000)) and d.train.take(slice(16_000, None)).",
    ),
)
_LETTER = Entry(
    name="letter",
    n_classes=26,
    n_train=20_000,
    n_test=None,
    files=_LETTER_FILES,
    downloads=_uci(59, "letter+recognition", _LETTER_FILES),
    reader=partial(
        text.read_tables,
        layout=text.TextLayout(16, ascii_uppercase, label_first=True, delimiter=","),
    ),
    classes=tuple(ascii_uppercase),
    source=f"{_UCI}/dataset/59/letter+recognition",
    licence=_UCI_LICENCE,
    citation="D. Slate: Letter Recognition, UCI, 1991, doi:10.24432/C5ZP40",
)

TABLE_SETS = (_USPS, _WAVEFORM1, _WAVEFORM2, _SATIMAGE, _PENDIGITS, _DRIVE, _LETTER)
