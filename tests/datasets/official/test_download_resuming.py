"""Downloads that break off are continued where they can be, and started anew where not."""

import fcntl
import gzip
import http.server
import threading
from dataclasses import dataclass, field

import pytest

from naysay._base import progress
from naysay._base.errors import DatasetUnavailable, InvalidData
from naysay.datasets.official import resume
from naysay.datasets.official.entry import Download, OfficialFile, md5_of
from small_table import TABLE, WRONG, load

LONG = TABLE * 20_000  # 240 kB: several of the chunks in which a file is kept
LONG_FILES = (OfficialFile("uci/table", per_class=(20_000,) * 3),)
LONG_HASH = f"md5:{md5_of(LONG)}"


@dataclass
class Origin:
    """A server of one file, whatever the path; every answer is remembered as (headers, status)."""

    content: bytes = LONG
    version: dict[str, str] = field(default_factory=lambda: {"ETag": '"1"'})
    cut_at: int | None = None  # the connection breaks there
    has_ranges: bool = True
    heeds_if_range: bool = True
    states_size: bool = True
    is_chunked: bool = False
    shift: int = 0  # of the start of a part against what was asked for
    more: bytes = b""  # sent after the end that was stated
    asked: list[dict[str, str]] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    sent: int = 0  # bytes of the latest answer
    url: str = ""

    def answer(self, request):
        self.asked.append({name: request.headers[name] for name in request.headers})
        start = self._start(request.headers)
        is_beyond = 0 < len(self.content) <= start
        status = 416 if is_beyond else 206 if start else 200
        self.answered.append(status)
        request.send_response(status)
        body = b"" if is_beyond else self.content[start:]
        for name, value in self._headers(status, start, len(body)).items():
            request.send_header(name, value)
        request.end_headers()
        whole = body + self.more
        body = whole if self.cut_at is None else whole[: max(self.cut_at - start, 0)]
        self.sent = len(body)
        if self.is_chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) + (b"" if self.cut_at else b"0\r\n\r\n")
        request.wfile.write(body)

    def _start(self, headers):
        is_same = headers["If-Range"] in (None, *self.version.values())
        if "Range" not in headers or not self.has_ranges or (self.heeds_if_range and not is_same):
            return 0
        return int(headers["Range"].removeprefix("bytes=").removesuffix("-")) + self.shift

    def _headers(self, status, start, n_left):
        stated = {"Content-Length": str(n_left + len(self.more))} if self.states_size else {}
        if self.is_chunked:
            stated = {"Transfer-Encoding": "chunked"}
        if status == 206:
            total = len(self.content)
            stated["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        return {**self.version, **stated}


@pytest.fixture
def origin():
    """Serve one long file on this machine."""
    served = Origin()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def log_message(self, *_):
            pass

        def do_GET(self):
            served.answer(self)
            self.close_connection = True

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{running.server_address[1]}/table"
        yield served
        running.shutdown()
        thread.join(timeout=5)


@pytest.fixture
def interrupt(origin, register, folder):
    """Interrupt the download of the long file in the middle; return the part that is left."""

    def start(known_hash=None, *mirrors):
        urls = (origin.url, *mirrors)
        register(Download(urls, ("uci/table",), known_hash), files=LONG_FILES)
        origin.cut_at = 150_000
        with pytest.raises(DatasetUnavailable, match=r"broke after 131,072 of 240,000 bytes, star"):
            load(folder)
        origin.cut_at = None
        (part,) = (folder / ".partial").glob("*-table")
        return part

    return start


@pytest.mark.parametrize("known_hash", [LONG_HASH, None])
@pytest.mark.parametrize(
    "version",
    [{"ETag": '"1"'}, {"ETag": 'W/"1"', "Last-Modified": "Sun, 01 Nov 2026 10:00:00 GMT"}],
)
def test_an_interrupted_file_is_continued(
    origin, interrupt, folder, files_under, known_hash, version
):
    origin.version = version
    part = interrupt(known_hash)
    kept = part.stat().st_size
    assert files_under(folder) == [f".partial/{part.name}", f".partial/{part.name}.version"]
    assert len(load(folder).train) == 60_000
    assert origin.asked[1]["Range"] == f"bytes={kept}-"
    assert origin.asked[1]["If-Range"] == list(version.values())[-1]
    assert origin.answered == [200, 206]
    assert origin.sent == len(LONG) - kept
    assert (folder / "uci" / "table").read_bytes() == LONG
    assert files_under(folder) == ["uci/table"]


def test_a_file_can_be_interrupted_again_and_again(origin, interrupt, folder):
    interrupt()
    for origin.cut_at in (200_000, 200_000):  # the second time nothing new arrives
        with pytest.raises(DatasetUnavailable, match=r"broke after 196,608 of 240,000 bytes"):
            load(folder)
    origin.cut_at = None
    assert len(load(folder).train) == 60_000
    assert origin.answered == [200, 206, 206, 206]


def test_a_server_without_ranges_sends_the_whole_again(origin, interrupt, folder, files_under):
    interrupt()
    origin.has_ranges = False
    assert len(load(folder).train) == 60_000
    assert origin.answered == [200, 200]
    assert files_under(folder) == ["uci/table"]


@pytest.mark.parametrize("heeds_if_range, answered", [(True, [200, 200]), (False, [200, 206, 200])])
def test_a_file_that_changed_meanwhile_is_started_anew(
    origin, interrupt, folder, heeds_if_range, answered
):
    interrupt()
    changed = LONG.replace(b"3 2", b"4 2")
    origin.content, origin.version = changed, {"ETag": '"2"'}
    origin.heeds_if_range = heeds_if_range
    assert len(load(folder).train) == 60_000
    assert (folder / "uci" / "table").read_bytes() == changed
    assert origin.answered == answered


def test_a_part_beyond_the_end_of_the_file_is_started_anew(origin, interrupt, folder):
    interrupt().write_bytes(LONG)  # as if killed just before the part became the file
    assert len(load(folder).train) == 60_000
    assert origin.answered == [200, 416, 200]


def test_a_part_that_was_not_asked_for_is_not_added(origin, interrupt, folder):
    interrupt()
    origin.shift = 12  # a row later
    assert len(load(folder).train) == 60_000
    assert origin.answered == [200, 206, 200]


@pytest.mark.parametrize("known_hash, answered", [(LONG_HASH, [200, 206]), (None, [200, 200])])
def test_a_file_without_a_version_is_continued_only_up_to_a_known_hash(
    origin, interrupt, folder, known_hash, answered
):
    origin.version = {}
    interrupt(known_hash)
    assert len(load(folder).train) == 60_000
    assert origin.answered == answered
    assert "If-Range" not in origin.asked[1]


def test_a_wrong_hash_leaves_no_part_behind(origin, interrupt, folder, files_under):
    interrupt(WRONG)
    with pytest.raises(InvalidData, match=r"must have the published hash"):
        load(folder)
    assert origin.answered == [200, 206]
    assert files_under(folder) == []


def test_more_than_was_stated_is_refused_and_nothing_is_kept(
    origin, interrupt, folder, files_under
):
    interrupt()
    origin.more = b"9 9\n" * 50_000
    with pytest.raises(InvalidData, match=r"must have the 240,000 bytes that its server states. M"):
        load(folder)
    assert files_under(folder) == []


def test_a_file_without_size_and_hash_is_not_taken_for_whole(origin, register, folder, files_under):
    origin.states_size = False
    register(Download((origin.url,), ("uci/table",)), files=LONG_FILES)
    with pytest.raises(DatasetUnavailable, match=r"does not say where the file ends"):
        load(folder)
    assert files_under(folder) == []
    register(Download((origin.url,), ("uci/table",), LONG_HASH), files=LONG_FILES)
    assert len(load(folder).train) == 60_000


def test_a_file_that_comes_in_chunks_is_whole_at_the_last_one(
    origin, register, folder, files_under
):
    origin.is_chunked = True
    register(Download((origin.url,), ("uci/table",)), files=LONG_FILES)
    assert len(load(folder).train) == 60_000
    (folder / "uci" / "table").unlink()
    origin.cut_at = 150_000
    with pytest.raises(DatasetUnavailable, match=r"the connection broke after [\d,]+ bytes, start"):
        load(folder)
    origin.cut_at = None
    assert len(load(folder).train) == 60_000
    assert origin.answered == [200, 200, 206]
    assert files_under(folder) == ["uci/table"]


def test_a_file_labelled_as_encoded_is_kept_as_it_lies_there(origin, register, folder):
    origin.content = gzip.compress(TABLE)
    origin.version = {"Content-Encoding": "gzip"}
    files = (OfficialFile("uci/table.gz", md5=md5_of(TABLE), per_class=(1, 1, 1)),)
    known_hash = f"md5:{md5_of(origin.content)}"
    register(Download((origin.url,), ("uci/table.gz",), known_hash), files=files)
    assert len(load(folder).train) == 3
    assert (folder / "uci" / "table.gz").read_bytes() == origin.content
    assert origin.asked[0]["Accept-Encoding"] == "identity"


def test_the_part_of_one_place_goes_when_the_next_has_the_file(
    origin, server, interrupt, folder, files_under
):
    interrupt(LONG_HASH, f"{server.url}/table")
    origin.cut_at = 150_000
    (server.folder / "table").write_bytes(LONG)
    assert len(load(folder).train) == 60_000
    assert files_under(folder) == ["uci/table"]


def test_a_part_that_another_process_writes_is_left_alone(origin, interrupt, folder):
    part = interrupt()
    kept = part.read_bytes()
    with part.open("ab") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)  # locks of one process exclude each other too
        assert len(load(folder).train) == 60_000
    assert part.read_bytes() == kept
    assert "Range" not in origin.asked[1]


def test_a_part_that_another_process_has_just_finished_is_not_claimed(tmp_path):
    path = tmp_path / "part"
    with path.open("ab", buffering=0) as file:
        assert resume._claim(file, path)
        path.rename(tmp_path / "whole")
        assert not resume._claim(file, path)
        path.touch()
        assert not resume._claim(file, path)


def test_the_bar_begins_at_what_is_there(interrupt, folder, monkeypatch):
    kept = interrupt().stat().st_size
    begun = []
    begin = progress.ProgressBar.begin

    def watch(bar, total, *, done=0):
        begin(bar, total, done=done)
        begun.append((bar._progress.tasks[0], bar._progress.tasks[0].completed))

    monkeypatch.setattr(progress.ProgressBar, "begin", watch)
    load(folder)
    ((task, start),) = begun
    assert start == kept
    assert task.completed == task.total == len(LONG)
