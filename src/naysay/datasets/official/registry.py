"""The registry of official data sets: their files, checksums, downloads and readers."""

from functools import partial
from string import ascii_uppercase
from typing import Any

from naysay.datasets.official import images, text, tiny_imagenet
from naysay.datasets.official.entry import Download, Entry, OfficialFile

_CIFAR = "https://www.cs.toronto.edu/~kriz"
_UCI = "https://archive.ics.uci.edu"
_DIGITS = tuple("0123456789")
_IDX_FILES = (
    *("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    *("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)
_TINY_FILES = tuple(
    OfficialFile(f"tiny-imagenet-200/{name}")
    for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")
)
_WAVEFORM = (
    "L. Breiman, J. Friedman, R. Olshen, C. Stone: Classification and Regression Trees, 1984, "
    "pages 43-49"
)

# The checksums of MNIST and Fashion-MNIST are those of the uncompressed files, and the checksums of
# CIFAR those of the pickles in the archive, so that a copy that has been unpacked or packed again
# is still recognised. The authors of Fashion-MNIST publish checksums of the gzip files only, which
# are used for the download; those of the content were computed from Debian's package and agree with
# other lists. The authors of Tiny ImageNet publish none; the one below is that of many downloads.
#
# No checksum of USPS and the UCI tables is published, and copies differ in spacing. The checksums
# of their values and the numbers of examples per class come from verified copies. The numbers of
# the whole Drive file follow from its 58,509 rows in 11 classes of equal size, and its hash is the
# one under which seven public repositories of different people store it in git, 2020 to 2025.


def _idx(
    *,
    folders: tuple[str, ...],
    mirrors: tuple[str, ...],
    md5s: tuple[tuple[str, str], ...],  # of the content and of the gzip file
    **description: Any,
) -> Entry:
    return Entry(
        n_classes=10,
        n_train=60_000,
        n_test=10_000,
        files=tuple(
            OfficialFile(
                f"{folders[0]}/{file}.gz",
                also=tuple(f"{where}/{file}{end}" for where in folders for end in (".gz", ""))[1:],
                md5=md5,
            )
            for file, (md5, _) in zip(_IDX_FILES, md5s, strict=True)
        ),
        downloads=tuple(
            Download(
                tuple(f"{mirror}/{file}.gz" for mirror in mirrors),
                gives=(f"{folders[0]}/{file}.gz",),
                known_hash=f"md5:{md5}",
            )
            for file, (_, md5) in zip(_IDX_FILES, md5s, strict=True)
        ),
        reader=images.read_idx,
        **description,
    )


def _cifar(
    name: str, n_classes: int, archive_md5: str, folder: str, md5s: dict[str, str], kind: str = ""
) -> Entry:
    files = tuple(OfficialFile(f"{folder}/{file}", md5=md5) for file, md5 in md5s.items())
    return Entry(
        name=name,
        n_classes=n_classes,
        n_train=50_000,
        n_test=10_000,
        files=files,
        downloads=(
            Download(
                (f"{_CIFAR}/{name}-python.tar.gz",),
                gives=tuple(file.path for file in files),
                known_hash=f"md5:{archive_md5}",
                archive="tar",
            ),
        ),
        reader=partial(
            images.read_batches, labels_key=f"{kind}labels", names_key=f"{kind}label_names"
        ),
        source=f"{_CIFAR}/cifar.html",
        licence="none stated",
        citation="A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009",
    )


def _uci(
    name: str,
    page: str,
    layout: text.TextLayout,
    *files: OfficialFile,
    classes: tuple[str, ...],
    citation: str,
    numbers: tuple[int, ...] = (),
) -> Entry:
    archive = Download(
        (f"{_UCI}/static/public/{page}.zip",),
        gives=tuple(file.path for file in files),
        archive="zip",
    )
    return Entry(
        name=name,
        n_classes=len(classes),
        n_train=sum(files[0].per_class),
        n_test=sum(files[1].per_class) if len(files) > 1 else None,
        files=files,
        downloads=(archive,),
        reader=partial(text.read_tables, layout=layout),
        source=f"{_UCI}/dataset/{page}",
        licence="CC BY 4.0",
        citation=citation,
        classes=classes,
        numbers=numbers,
    )


_ENTRIES = (
    _idx(
        name="mnist",
        folders=("mnist", "MNIST/raw"),
        mirrors=(
            "http://yann.lecun.com/exdb/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist",
        ),
        md5s=(
            ("6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            ("a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"),
            ("2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3"),
            ("27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        classes=_DIGITS,
        source="http://yann.lecun.com/exdb/mnist",
        licence="CC BY-SA 3.0",
        citation="Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits",
    ),
    _idx(
        name="fashion-mnist",
        # The last one is the folder of Debian's package dataset-fashion-mnist.
        folders=("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist"),
        mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
        md5s=(
            ("f4a8712d7a061bf5bd6d2ca38dc4d50a", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            ("9018921c3c673c538a1fc5bad174d6f9", "25c81989df183df01b3e8a0aad5dffbe"),
            ("8181f5470baa50b63fa0f6fddb340f0a", "bef4ecab320f06d8554ea6380940ec79"),
            ("15d484375f8d13e6eb1aabb0c3f46965", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        source="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        citation="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747",
    ),
    Entry(
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
            layout=text.TextLayout(256, tuple(range(10)), label_column=0, image=(1, 16, 16)),
        ),
        classes=_DIGITS,
        source="https://hastie.su.domains/ElemStatLearn/data.html",
        licence="none stated (research use)",
        citation="Y. LeCun et al.: Handwritten Digit Recognition with a Back-Propagation Network, "
        "1990",
    ),
    _uci(
        "waveform1",
        "107/waveform+database+generator+version+1",
        text.TextLayout(21, (0, 1, 2), delimiter=","),
        OfficialFile(
            "uci/waveform.data",
            per_class=(1657, 1647, 1696),
            values_sha256="6b307b22d39b5417fec7973e5199668bbbb8c4ff11f6f7e9438355b344fddc28",
        ),
        classes=_DIGITS[:3],
        citation=_WAVEFORM,
    ),
    _uci(
        "waveform2",
        "108/waveform+database+generator+version+2",
        text.TextLayout(40, (0, 1, 2), delimiter=","),
        OfficialFile(
            "uci/waveform-+noise.data",
            per_class=(1692, 1653, 1655),
            values_sha256="233e6b11f38ca4df2b104623ce4bb804c06e4c458163a18ab98514c4712f07e4",
        ),
        classes=_DIGITS[:3],
        citation=_WAVEFORM,
    ),
    _uci(
        "satimage",
        "146/statlog+landsat+satellite",
        text.TextLayout(36, (1, 2, 3, 4, 5, 7)),
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
        classes=(
            *("red soil", "cotton crop", "grey soil", "damp grey soil"),
            *("soil with vegetation stubble", "very damp grey soil"),
        ),
        numbers=(1, 2, 3, 4, 5, 7),
        citation="A. Srinivasan: Statlog (Landsat Satellite), UCI, 1993, doi:10.24432/C55887",
    ),
    _uci(
        "pendigits",
        "81/pen+based+recognition+of+handwritten+digits",
        text.TextLayout(16, tuple(range(10)), delimiter=","),
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
        classes=_DIGITS,
        citation="E. Alpaydin, F. Alimoglu: Pen-Based Recognition of Handwritten Digits, UCI, "
        "1996, doi:10.24432/C5MG6K",
    ),
    _uci(
        "drive",
        "325/dataset+for+sensorless+drive+diagnosis",
        text.TextLayout(48, tuple(range(1, 12))),
        OfficialFile(
            "uci/Sensorless_drive_diagnosis.txt",
            git_sha1="9101c388dfa5ccd3bfbec96c00efe2b1d7c36f32",
            per_class=(5_319,) * 11,
            stand_in=OfficialFile(
                "uci/Sensorless_drive_diagnosis.subset2200.txt",
                per_class=(200,) * 11,
                values_sha256="4835d378eb8d4b04dde7735db1713fe69489e8fc2430689b93726fb4814cc3fd",
                note="Only 2,200 of the 58,509 rows were read (200 of each class). They suffice "
                "for trying things out, but not for reproducing published numbers. To download "
                "all rows run: naysay data fetch drive",
            ),
        ),
        classes=tuple(map(str, range(1, 12))),
        citation="M. Bator: Dataset for Sensorless Drive Diagnosis, UCI, 2013, doi:10.24432/C5VP5F",
    ),
    _uci(
        "letter",
        "59/letter+recognition",
        text.TextLayout(16, ascii_uppercase, label_column=0, delimiter=","),
        OfficialFile(
            "uci/letter-recognition.data",
            per_class=(
                *(789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792),
                *(783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734),
            ),
            values_sha256="19d01463ecc357bb375d9a1fcffee59e2009c3421aa3960accba71db597f0260",
            note="There is one file without a split. It is customary to train on the first 16,000 "
            "rows and to test on the last 4,000: d.train.take(slice(16_000)) and "
            "d.train.take(slice(16_000, None)).",
        ),
        classes=tuple(ascii_uppercase),
        citation="D. Slate: Letter Recognition, UCI, 1991, doi:10.24432/C5ZP40",
    ),
    _cifar(
        "cifar-10",
        10,
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
    _cifar(
        "cifar-100",
        100,
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
        {
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
        kind="fine_",
    ),
    Entry(
        name="tiny-imagenet",
        n_classes=200,
        n_train=100_000,
        n_test=10_000,
        files=_TINY_FILES,
        downloads=(
            Download(
                ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                gives=tuple(file.path for file in _TINY_FILES),
                known_hash="md5:90528d7ca1a48142e341f4ef8d21d0de",
                archive="zip",
                folder="tiny-imagenet-200",
            ),
        ),
        reader=tiny_imagenet.read_folder,
        source="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        licence="ImageNet's terms (non-commercial research)",
        citation="Y. Le, X. Yang: Tiny ImageNet Visual Recognition Challenge, CS 231N, 2015",
    ),
)

REGISTRY: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
