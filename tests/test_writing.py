"""Files appear whole or not at all."""

import pytest

from naysay import InvalidInput
from naysay._writing import check_target, replacing


def test_ctrl_c_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def write_half():
        with replacing(target) as part:
            part.write_text("hal")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert target.read_text() == "old"


def test_a_link_stays_a_link_and_the_suffix_stays(tmp_path):
    (tmp_path / "real.pt2").write_text("old")
    (tmp_path / "link.pt2").symlink_to("real.pt2")
    with replacing(tmp_path / "link.pt2") as part:
        assert part.suffix == ".pt2"
        part.write_text("new")
    assert (tmp_path / "link.pt2").is_symlink()
    assert (tmp_path / "real.pt2").read_text() == "new"


def test_what_cannot_be_written_is_refused_before(tmp_path):
    with pytest.raises(InvalidInput, match=r"pass '.*/Q\.csv', for instance"):
        check_target(tmp_path, usual="Q.csv")
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_target(tmp_path / "none" / "a.csv")
    with pytest.raises(InvalidInput, match="a device or a pipe"):
        check_target("/dev/null")
