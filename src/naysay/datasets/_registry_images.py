"""The official image data sets, one row each.

The checksums of MNIST and Fashion-MNIST are of the uncompressed files, those of CIFAR of the
pickles in the archive, so that a copy that was unpacked or packed again is still recognised.
Fashion-MNIST's authors publish those of the gzip files only (used for the download); the ones of
the content were computed from Debian's package and agree with what others list. Tiny ImageNet's
authors publish none; the one here is what many downloads of the archive were found to have.
"""

from functools import partial

from naysay.datasets import cifar, idx, tiny_imagenet
from naysay.datasets._entry import Download, Entry, OfficialFile

__all__ = ["IMAGE_SETS"]

_CIFAR = "https://www.cs.toronto.edu/~kriz"
_KRIZHEVSKY = "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009"


def _idx_files(folders: tuple[str, ...], md5s: dict[str, str]) -> tuple[OfficialFile, ...]:
    return tuple(
        OfficialFile(
            f"{folders[0]}/{name}.gz",
            also=tuple(f"{folder}/{name}{end}" for folder in folders for end in (".gz", ""))[1:],
            md5=md5,
        )
        for name, md5 in md5s.items()
    )


def _idx_downloads(
    folder: str, places: tuple[str, ...], md5s: dict[str, str]
) -> tuple[Download, ...]:
    return tuple(
        Download(
            tuple(f"{place}/{name}.gz" for place in places),
            gives=(f"{folder}/{name}.gz",),
            known_hash=f"md5:{md5}",
        )
        for name, md5 in md5s.items()
    )


_MNIST = Entry(
    name="mnist",
    n_classes=10,
    n_train=60_000,
    n_test=10_000,
    files=_idx_files(
        ("mnist", "MNIST/raw"),
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    downloads=_idx_downloads(
        "mnist",
        ("http://yann.lecun.com/exdb/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist"),
        {
            "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    reader=idx.read_images,
    classes=tuple("0123456789"),
    source="http://yann.lecun.com/exdb/mnist",
    licence="CC BY-SA 3.0",
    citation="Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits",
)

_FASHION_MNIST = Entry(
    name="fashion-mnist",
    n_classes=10,
    n_train=60_000,
    n_test=10_000,
    files=_idx_files(
        # The last is where Debian's package dataset-fashion-mnist puts its files.
        ("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist"),
        {
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
    downloads=_idx_downloads(
        "fashion-mnist",
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
        {
            "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    reader=idx.read_images,
    classes=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    source="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    citation="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747",
)


def _cifar_files(folder: str, md5s: dict[str, str]) -> tuple[OfficialFile, ...]:
    return tuple(OfficialFile(f"{folder}/{name}", md5=md5) for name, md5 in md5s.items())


def _cifar_download(
    name: str, archive_md5: str, files: tuple[OfficialFile, ...]
) -> tuple[Download, ...]:
    return (
        Download(
            (f"{_CIFAR}/{name}-python.tar.gz",),
            gives=tuple(file.path for file in files),
            known_hash=f"md5:{archive_md5}",
            archive="tar",
        ),
    )


_CIFAR10_FILES = _cifar_files(
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
)
_CIFAR10 = Entry(
    name="cifar-10",
    n_classes=10,
    n_train=50_000,
    n_test=10_000,
    files=_CIFAR10_FILES,
    downloads=_cifar_download("cifar-10", "c58f30108f718f92721af3b95e74349a", _CIFAR10_FILES),
    reader=partial(cifar.read_batches, labels_key="labels", names_key="label_names"),
    source=f"{_CIFAR}/cifar.html",
    licence="none stated",
    citation=_KRIZHEVSKY,
)

_CIFAR100_FILES = _cifar_files(
    "cifar-100-python",
    {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
)
_CIFAR100 = Entry(
    name="cifar-100",
    n_classes=100,
    n_train=50_000,
    n_test=10_000,
    files=_CIFAR100_FILES,
    downloads=_cifar_download("cifar-100", "eb9058c3a382ffc7106e4002c42a8d85", _CIFAR100_FILES),
    reader=partial(cifar.read_batches, labels_key="fine_labels", names_key="fine_label_names"),
    source=f"{_CIFAR}/cifar.html",
    licence="none stated",
    citation=_KRIZHEVSKY,
)

_TINY_FILES = tuple(
    OfficialFile(f"tiny-imagenet-200/{name}")
    for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")
)
_TINY_IMAGENET = Entry(
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
)

IMAGE_SETS = (_MNIST, _FASHION_MNIST, _CIFAR10, _CIFAR100, _TINY_IMAGENET)
