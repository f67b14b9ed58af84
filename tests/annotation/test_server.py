"""The server: who may do what, what is refused, and what is never served."""

import json
import os
import subprocess
import sys
import uuid

import pytest
from PIL import Image
from starlette.testclient import TestClient

from naysay import InvalidInput
from naysay.annotation import server as server_module
from naysay.annotation.exports import export
from naysay.annotation.questions import Item, Settings, find_items
from naysay.annotation.server import Server, is_loopback
from naysay.annotation.store import Task, create

CLASSES = ("cat", "dog", "owl")
PAGE = {"x-naysay": "1"}


@pytest.fixture
def task(tmp_path):
    photos = tmp_path / "photos"
    (photos / "inner").mkdir(parents=True)
    for n in range(4):
        Image.new("RGB", (8, 8), (n, 0, 0)).save(photos / "inner" / f"{n}.png")
    Image.new("RGB", (8, 8)).save(photos / "last.tiff")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (photos / "link.png").symlink_to(tmp_path / "secret.png")
    kind, root, items = find_items(photos)
    create(tmp_path / "task.db", Settings.of(CLASSES, kind=kind, root=root), items)
    with Task(tmp_path / "task.db") as opened:
        yield opened


@pytest.fixture
def local(task):
    app = Server(task, local=task.local_person("me"), port=1).app
    return TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 5))


@pytest.fixture
def remote(task):
    return TestClient(Server(task).app, base_url="http://team.example", client=("10.0.0.9", 5))


def questions(client):
    return client.get("/api/next").json()["questions"]


def send(client, question, **more):
    body = {"id": str(uuid.uuid4()), "deal": question["deal"], "said": "not", "seconds": 1}
    return client.post(
        "/api/answer", headers=PAGE, json={**body, "label": question["offered"][0], **more}
    )


def test_numbers_that_json_lacks_reach_the_page_and_label_studio(tmp_path):
    items = [Item("1", {"x": float("nan"), "y": float("inf")})]
    create(tmp_path / "task.db", Settings.of(CLASSES), items)
    with Task(tmp_path / "task.db") as task:
        app = Server(task, local=task.local_person("me"), port=1).app
        client = TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 5))
        assert questions(client)[0]["cells"] == {"x": "NaN", "y": "Infinity"}
        export(task, tmp_path / "task.json")
    data = json.loads((tmp_path / "task.json").read_text())[0]["data"]
    assert (data["x"], data["y"]) == (None, None)


def test_an_answer_is_saved_once_and_brings_more_questions(local):
    first, second, *_ = questions(local)
    key = str(uuid.uuid4())
    for _ in range(2):
        said = send(local, first, id=key, want=3).json()
        assert said["status"] == "saved"
    assert second["deal"] in [each["deal"] for each in said["questions"]]
    assert local.get("/api/progress").json()["mine"] == 1
    undone = local.post("/api/undo", headers=PAGE, json={"id": key}).json()
    assert undone["question"] == first
    assert local.get("/api/progress").json()["mine"] == 0
    assert local.post("/api/later", headers=PAGE, json={"deal": first["deal"]}).json() == {
        "status": "later"
    }
    assert local.post("/api/undo", headers=PAGE, json={"id": "nothing"}).status_code == 404


def test_other_hosts_need_the_token_of_a_link(task, remote):
    assert remote.get("/").status_code == 403
    assert "A link is needed" in remote.get("/").text
    assert remote.get("/api/next").status_code == 403
    assert remote.get("/api/image/1").status_code == 403
    token = task.invite("Ann")
    page = remote.get("/", params={"token": token})
    assert page.status_code == 200
    cookie = page.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert len(questions(remote)) == 6
    for path in ("/owner", "/api/owner", "/api/owner/export/csv"):
        assert remote.get(path).status_code == 403
    for path in ("reopen", "invite", "learn"):
        said = remote.post(f"/api/owner/{path}", headers=PAGE, json={"ids": [], "name": "x"})
        assert said.status_code == 403
    assert remote.get("/?token=wrong").status_code == 403


def test_wrong_links_are_soon_refused_without_a_look(remote):
    codes = [remote.get(f"/api/next?token=guess{n}").status_code for n in range(25)]
    assert codes[0] == 403
    assert codes[-1] == 429


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**PAGE, "origin": "http://evil.example"},
        {**PAGE, "sec-fetch-site": "cross-site"},
    ],
)
def test_other_sites_cannot_answer(local, headers):
    body = {"id": str(uuid.uuid4()), "deal": questions(local)[0]["deal"], "said": "unknown"}
    assert local.post("/api/answer", headers=headers, json=body).status_code == 403


def test_another_name_for_this_machine_and_proxies_are_refused(local):
    assert local.get("/api/next", headers={"host": "evil.example"}).status_code == 403
    assert local.get("/api/next", headers={"x-forwarded-for": "1.2.3.4"}).status_code == 403
    assert local.get("/api/next", headers={"host": "localhost:8000"}).status_code == 200


def test_requests_that_no_human_sends_are_slowed(local, monkeypatch):
    monkeypatch.setattr(server_module, "_BURST", 5.0)
    monkeypatch.setattr(server_module, "_PER_SECOND", 0.001)
    codes = [local.get("/api/next").status_code for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3


@pytest.mark.parametrize(
    "body",
    [b"", b"[1]", b"{", b'{"deal": true, "id": "abcdefgh"}', b'{"deal": 1, "id": 3}'],
)
def test_bodies_that_are_no_answers_are_one_clear_line(local, body):
    said = local.post("/api/answer", headers=PAGE, content=body)
    assert said.status_code in (400, 413)
    assert said.json()["error"]


def test_images_are_served_by_number_and_never_from_elsewhere(task, local):
    found = {name: number for number, name, _ in task.items()}
    shown = local.get(f"/api/image/{found['inner/1.png']}")
    assert shown.headers["content-type"] == "image/png"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert local.get(f"/api/image/{found['last.tiff']}").content.startswith(b"\x89PNG")
    assert local.get(f"/api/image/{found['link.png']}").status_code == 404
    for path in ("/api/image/999", "/api/image/../secret.png", "/page/../server.py", "/page/x"):
        assert local.get(path).status_code == 404
    assert local.get("/page/..%2fserver.py").status_code == 404


def test_the_owner_sees_figures_invites_reopens_and_exports(task, local):
    key = str(uuid.uuid4())
    first, second, *_ = questions(local)
    send(local, first, id=key)
    send(local, second, said="unknown")
    link = local.post("/api/owner/invite", headers=PAGE, json={"name": "Ann"}).json()["link"]
    assert task.find_person(link.partition("token=")[2]).name == "Ann"
    task.save_estimate(
        {"n_answers": 1, "accuracy": {}, "suspects": [{"id": key, "probability": 0.9}]}, []
    )
    seen = local.get("/api/owner").json()
    assert seen["n_answers"] == 2
    assert seen["n_unknown"] == 1
    assert seen["per_hour"][-1] == 2
    assert [each["n_answers"] for each in seen["people"]] == [2, 0]
    names = "name is_owner n_answers n_unknown seconds n_known n_wrong wrong last"
    assert [" ".join(each) for each in seen["people"]] == [names] * 2
    assert seen["latest"]["suspects"][0]["label"] == CLASSES[first["offered"][0]]
    lines = local.get("/api/owner/export/jsonl").text.splitlines()
    assert [json.loads(line)["answer"] for line in lines] == ["not", "unknown"]
    assert len(local.get("/api/owner/export/csv").text.splitlines()) == 3
    reopened = local.post("/api/owner/reopen", headers=PAGE, json={"ids": [key]}).json()
    assert reopened == {"reopened": 1}
    assert local.get("/api/owner").json()["latest"]["suspects"] == []
    assert first["deal"] in [each["deal"] for each in questions(local)]
    assert local.post("/api/owner/reopen", headers=PAGE, json={"ids": 3}).status_code == 400
    assert local.get("/api/owner/export/exe").status_code == 404


def test_a_title_that_is_not_utf8_can_be_shown(tmp_path):
    title = os.fsdecode(b"ph\xffotos")  # of a folder
    create(tmp_path / "t.db", Settings.of(CLASSES, title=title), [Item("1", {"x": 1})])
    with Task(tmp_path / "t.db") as opened:
        app = Server(opened, local=opened.local_person("me"), port=1).app
        client = TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 5))
        assert client.get("/api/next").json()["task"]["title"] == title
    with pytest.raises(InvalidInput, match="distinct names in UTF-8"):
        Settings.of(["cat", "dog", title])


def test_a_lost_database_is_said_and_nothing_is_acknowledged(task, local, tmp_path):
    question = questions(local)[0]
    (tmp_path / "task.db").rename(tmp_path / "away.db")
    said = send(local, question)
    assert said.status_code == 503
    assert "moved or removed" in said.json()["error"]
    (tmp_path / "away.db").rename(tmp_path / "task.db")
    assert send(local, question).json()["status"] == "saved"


@pytest.mark.unmeasured
def test_the_server_loads_neither_torch_nor_scikit_learn():
    code = (
        "import sys, naysay.annotation.run, naysay.cli; "
        "print([m for m in ('torch', 'sklearn', 'pyarrow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_loopback_addresses():
    assert [is_loopback(each) for each in ("127.0.0.1", "::1", "[::1]", "localhost")] == [True] * 4
    assert not any(is_loopback(each) for each in ("0.0.0.0", "10.0.0.1", "example.org", ""))
