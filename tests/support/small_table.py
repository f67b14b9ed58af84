"""A table of three rows, registered as waveform1 by the fixture `register`, to be downloaded."""

from naysay import datasets
from naysay.datasets.official.entry import OfficialFile

TABLE = b"1 0\n2 1\n3 2\n"
FILES = (OfficialFile("uci/table", per_class=(1, 1, 1)),)
WRONG = "md5:" + "0" * 32


def load(folder):
    return datasets.load("waveform1", data_dir=folder)
