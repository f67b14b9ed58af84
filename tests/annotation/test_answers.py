"""From answers to data and models: reading, Label Studio, crowd-kit, exports, and a crowd."""

import csv
import json
import os
import uuid

import httpx
import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import make_blobs

from naysay import InvalidData, InvalidInput, TransitionMatrix
from naysay._base import task_tables
from naysay.annotation import server
from naysay.annotation.exports import export
from naysay.annotation.imports import import_label_studio
from naysay.annotation.questions import Item, Settings, find_items
from naysay.annotation.store import Task, create
from naysay.datasets.own import read_own
from naysay.workflows import annotation_task
from naysay.workflows.annotation_task import agreement, expected_information, learn_task
from naysay.workflows.fit import fit_own

CLASSES = ("ash", "elm", "fir", "oak")


def make(path, items, **options):
    create(path, Settings.of(CLASSES, **{"known_rate": 0.0, **options}), items)
    return Task(path)


def give(task, who, question, said="not", label=None):
    given = {"id": str(uuid.uuid4()), "deal": question.deal, "said": said, "label": label}
    assert task.answer(who, {**given, "seconds": 2.0}) == "saved"


@pytest.fixture
def answered(tmp_path):
    """A task with an answer of each kind."""
    items = [Item(str(n), {"x": float(n), "y": n % 3}) for n in range(1, 7)]
    items[5] = items[5]._replace(known="oak")
    with make(tmp_path / "task.db", items, n_offered=2, none_of_these=True, seed=3) as task:
        who = task.local_person("me").id
        kinds = iter(["not", "none", "unknown", "not"])
        for question in task.deal(who, 4):
            said = next(kinds)
            give(task, who, question, said, question.offered[1] if said == "not" else None)
        yield task


def test_answers_are_read_with_what_was_offered(answered):
    own = read_own(answered.name)
    assert own.classes == CLASSES
    assert own.annotators == ("me",)
    np.testing.assert_array_equal(read_own(answered.name, recipe=own.recipe).X, own.X)
    assert own.n_examples == 4  # "don't know" says nothing; the known example is an anchor
    assert (own.true_labels >= 0).sum() == 1
    rows = list(answered.answers())
    chosen = [each for each in own.offered if each is not None]
    assert sorted(tuple(CLASSES[k] for k in each) for each in chosen) == sorted(
        tuple(row["offered"].split("|")) for row in rows if row["answer"] == "not"
    )
    none = next(row for row in rows if row["answer"] == "none")
    rejected = own.label[own.is_yes_no]
    assert {CLASSES[k] for k in rejected} == set(none["offered"].split("|"))
    assert own.is_label.sum() == 2
    assert not own.asked_at_random[own.is_yes_no].any()  # selected by their outcome
    with pytest.raises(InvalidInput, match="label must be omitted"):
        read_own(answered.name, label="x")
    with pytest.raises(InvalidInput, match="be those of the task"):
        read_own(answered.name, classes=["a", "b", "c"])


def test_a_person_without_a_name_is_unknown(answered):
    person = task_tables.person_table
    answered.submit(
        lambda connection: connection.execute(person.update().values(name=" "))
    ).result()
    own = read_own(answered.name)
    assert own.annotators == ()
    assert set(own.annotator) == {-1}


def test_the_first_wrong_of_a_list_is_yes_or_no_to_its_first_class(tmp_path):
    items = [Item(str(n), {"x": n}) for n in range(1, 3)]
    with make(tmp_path / "t.db", items, lists=((2, 0), (2, 0)), in_order=True) as task:
        who = task.local_person("me").id
        first, second = task.deal(who, 2)
        give(task, who, first, label=2)
        give(task, who, second, label=0)
        own = read_own(task.name)
    assert own.label.tolist() == [2, 2]
    assert sorted(own.accepted.tolist()) == [0, 1]


def test_a_task_without_answers_says_what_to_do(tmp_path):
    with (
        make(tmp_path / "t.db", [Item("1", {"x": 1})]) as task,
        pytest.raises(InvalidData, match="must have answers to learn from"),
    ):
        read_own(task.name)


def test_exports_hold_the_same_answers(answered, tmp_path):
    assert export(answered, tmp_path / "a.csv") == 4
    assert export(answered, tmp_path / "a.jsonl") == 4
    assert export(answered, tmp_path / "a.parquet") == 4
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    table = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert lines == table == list(answered.answers())
    assert [row["id"] for row in rows] == [line["id"] for line in lines]
    assert rows[0]["asked_by"] == "random"
    assert export(answered, tmp_path / "crowd.csv", "crowd-kit") == 2
    crowd = pandas.read_csv(tmp_path / "crowd.csv", dtype=str)
    assert list(crowd.columns) == ["task", "worker", "label"]
    with pytest.raises(InvalidInput, match="must be one of"):
        export(answered, tmp_path / "a.xyz")


def test_an_export_counts_answers_and_not_lines(tmp_path):
    with make(tmp_path / "t.db", [Item("a\nb.jpg", {"x": 1})]) as task:
        who = task.local_person("me").id
        give(task, who, task.deal(who, 1)[0], label=2)
        assert export(task, tmp_path / "a.csv") == 1
        assert export(task, tmp_path / "crowd.csv", "crowd-kit") == 1


def test_frames_of_crowd_kit_need_no_names():
    frame = pandas.DataFrame(
        {
            "task": ["a", "a", "b"],
            "worker": ["w1", "w2", "w1"],
            "label": ["ash", "elm", "fir"],
            "x": [1.0, 1.0, 2.0],
        }
    )
    own = read_own(frame)
    assert own.n_examples == 2
    assert own.annotators == ("w1", "w2")
    assert own.feature_names == ("x",)


LABEL_STUDIO = [
    {
        "id": 7,
        "data": {"length": 1.5, "note": "tall"},
        "annotations": [
            {
                "id": 1,
                "completed_by": {"id": 3, "email": "ann@x.org"},
                "was_cancelled": False,
                "lead_time": 2.1,
                "result": [
                    {"type": "choices", "from_name": "not", "value": {"choices": ["ash"]}},
                    {"type": "textarea", "from_name": "why", "value": {"text": ["?"]}},
                ],
            },
            {"id": 2, "completed_by": 4, "was_cancelled": True, "result": []},
        ],
        "predictions": [{"result": [{"type": "choices", "value": {"choices": ["oak"]}}]}],
    },
    {
        "id": 8,
        "data": {"length": 2.5, "note": "low", "offered": [{"value": "elm"}, {"value": "fir"}]},
        "annotations": [
            {
                "id": 3,
                "completed_by": 4,
                "result": [
                    {"type": "choices", "from_name": "not", "value": {"choices": ["elm"]}},
                ],
            }
        ],
    },
    {"id": 9, "data": {"length": 3.5, "note": "low"}, "annotations": []},
]


def write(path, tasks):
    path.write_text(json.dumps(tasks), "utf-8")
    return path


def test_an_export_of_label_studio_is_read(tmp_path):
    own = read_own(write(tmp_path / "ls.json", LABEL_STUDIO), classes=CLASSES)
    assert own.n_examples == 2
    assert own.annotators == ("4", "ann@x.org")
    assert [own.classes[k] for k in own.label] == ["ash", "elm"]
    assert own.offered.tolist() == [None, (1, 2)]
    assert own.n_dropped == 1
    assert "length" in own.feature_names


def test_other_forms_of_label_studio(tmp_path):
    short = [
        {"id": 1, "length": 1.0, "choice": "ash", "annotator": 1, "lead_time": 2.0},
        {"id": 2, "length": 2.0, "choice": {"choices": ["elm", "fir"]}, "annotator": 2},
    ]
    own = read_own(write(tmp_path / "min.json", short), classes=CLASSES)
    assert [own.classes[k] for k in own.label] == ["ash", "elm", "fir"]
    two = json.loads(json.dumps(LABEL_STUDIO))
    two[0]["annotations"][0]["result"][1] |= {"type": "choices", "value": {"choices": ["no"]}}
    with pytest.raises(InvalidInput, match=r"label \(--label\) must name the control"):
        read_own(write(tmp_path / "two.json", two))
    assert read_own(tmp_path / "two.json", label="not", classes=CLASSES).n_examples == 2
    for bad, match in (
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "list of tasks"),
        ('{"a": 1}', "list of tasks"),
        ('[{"data": 3}]', "'data'"),
        ('[{"data": {"x": 1}, "annotations": []}]', "must have choices"),
    ):
        (tmp_path / "bad.json").write_text(bad)
        with pytest.raises(InvalidData, match=match):
            read_own(tmp_path / "bad.json")


def test_a_task_goes_to_label_studio_and_back(answered, tmp_path):
    assert export(answered, tmp_path / "ls.json") == 4
    tasks = json.loads((tmp_path / "ls.json").read_text())
    assert len(tasks) == 6
    assert all(len(each["data"]["offered"]) == 2 for each in tasks)
    assert 'value="$offered"' in (tmp_path / "ls.xml").read_text()
    fresh = next(each for each in tasks if not each["annotations"])
    choice = fresh["data"]["offered"][0]["value"]
    fresh["annotations"] = [
        {
            "completed_by": {"email": "bob"},
            "result": [{"type": "choices", "from_name": "not", "value": {"choices": [choice]}}],
        }
    ]
    path = write(tmp_path / "back.json", tasks)
    counts = import_label_studio(answered, path)
    assert counts == {"added": 1, "known": 3, "left_out": 0}
    assert import_label_studio(answered, path)["added"] == 0
    added = [row for row in answered.answers() if row["annotator"] == "bob"]
    assert [row["label"] for row in added] == [choice]


def annotation(*choices, control="not", **more):
    result = {"type": "choices", "from_name": control, "value": {"choices": list(choices)}}
    return {"id": "1001", "completed_by": 1, "lead_time": 2.5, "result": [result], **more}


def test_names_that_are_no_text_belong_to_no_answer(tmp_path):
    tasks = [
        {"data": {"naysay_item": "1"}, "annotations": [annotation("elm")]},
        {"data": {"naysay_item": "2"}, "annotations": [annotation("elm", control={"a": 1})]},
        {
            "data": {"naysay_item": "3", "suggested": {"value": "elm"}},
            "annotations": [annotation("no")],
        },
    ]
    with make(tmp_path / "t.db", [Item(str(n), {"x": n}) for n in range(1, 4)]) as task:
        counts = import_label_studio(task, write(tmp_path / "ls.json", tasks))
    assert counts == {"added": 1, "known": 0, "left_out": 1}


def test_fields_that_cannot_be_stored_are_refused_or_infinite(tmp_path):
    def read(value):
        tasks = [
            {"data": {"x": value, "y": n}, "annotations": [annotation(name)]}
            for n, name in enumerate(CLASSES)
        ]
        return read_own(write(tmp_path / "ls.json", tasks), classes=CLASSES)

    with pytest.raises(InvalidData, match=r"must be JSON in UTF-8.*surrogates"):
        read("\ud800")
    assert read("\U0001f600").X.shape[1] == 2  # two halves of a character, in JSON
    with pytest.raises(InvalidData, match="must contain finite numbers"):
        read(10**400)
    assert read("http://[/data/local-files/?d=x").X.shape[1] == 2


def test_all_answers_survive_label_studio(tmp_path):
    lists = ((2, 0), (1, 3))
    items = [Item(str(n), {"x": n}, known="oak" if n == 1 else None) for n in range(1, 7)]
    options = {"n_answers": 3, "known_rate": 0.9, "none_of_these": True, "lists": lists}
    with make(tmp_path / "a.db", items, ask="both", in_order=True, **options) as task:
        task.copy_to(tmp_path / "b.db")
        for name in ("ann", "bob", "eve"):
            who = task.local_person(name).id
            for question in task.deal(who, 6):
                if question.question == "yes-no":
                    give(task, who, question, "no" if name == "eve" else "yes")
                elif question.item % 3 == 0:
                    give(task, who, question, "none")
                else:
                    give(task, who, question, "not", question.offered[name == "bob"])
        export(task, tmp_path / "ls.json")
        before = {tuple(list(row.values())[:-2]) for row in task.answers()}
    with Task(tmp_path / "b.db") as copy:
        assert import_label_studio(copy, tmp_path / "ls.json")["added"] == len(before) == 18
        after = {tuple(list(row.values())[:-2]) for row in copy.answers()}
    kinds = {row[2] if row[4] != "none" else "none" for row in before}
    assert kinds == {"in order", "yes-no", "none"}

    def same(rows):  # what "none of these" excludes is known, but not the order
        return {("none", *row[:2]) if row[4] == "none" else row for row in rows}

    assert same(after) == same(before)


def test_exports_of_other_projects_are_imported_by_image_and_text(tmp_path):
    photos = tmp_path / "photos"
    (photos / "in").mkdir(parents=True)
    for name in ("a b (1).png", "c.png", "in/c.png", "d.png"):
        Image.new("RGB", (4, 4)).save(photos / name)
    places = {
        "/data/upload/3/0a1b2c3d-a_b_1.png": "elm",
        "/data/local-files/?d=photos%5Cin%5Cc.png": "fir",
        "s3://bucket/deep/d.png?sig=1": "oak",
        "/data/upload/3/0a1b2c3d-other.png": "oak",
    }
    tasks = [
        {"id": n, "data": {"image": place}, "annotations": [annotation(label)]}
        for n, (place, label) in enumerate(places.items())
    ]
    tasks[2]["annotations"] += [annotation("ash", "elm", completed_by="ü@x.org")]
    tasks[2]["annotations"] += [annotation("ivy", completed_by=5), annotation("elm", control="b")]
    kind, root, items = find_items(photos)
    with make(tmp_path / "t.db", items, kind=kind, root=root) as task:
        path = write(tmp_path / "ls.json", tasks)
        counts = import_label_studio(task, path, label="not")
        assert counts == {"added": 4, "known": 0, "left_out": 2}
        rows = {(row["item"], row["annotator"]): row for row in task.answers()}
    assert rows["a b (1).png", "1"]["label"] == "elm"
    assert rows["in/c.png", "1"]["label"] == "fir"
    assert rows["d.png", "1"]["seconds"] == 2.5
    assert (rows["d.png", "ü@x.org"]["answer"], rows["d.png", "ü@x.org"]["offered"]) == (
        "none",
        "ash|elm",
    )
    text = [{"data": {"text": "größer"}, "annotations": [annotation("elm")]}]
    with make(tmp_path / "x.db", [Item("a.txt", {"text": "größer"})], kind="texts") as task:
        assert import_label_studio(task, write(path, text))["added"] == 1
    text[0]["id"] = 1  # the number of a task is not that of a row
    with (
        make(tmp_path / "n.db", [Item("1", {"text": "größer", "x": 1})]) as task,
        pytest.raises(InvalidData, match="must contain answers about examples"),
    ):
        import_label_studio(task, path)


TEXT = {"text": "ein Wort"}
FORMS = {  # what Label Studio wrote in several versions, and the annotators and labels in it
    "numbers from 0": (
        [{"id": n, "data": TEXT, "annotations": [annotation("elm")]} for n in (0, 1)],
        (("1",), ["elm", "elm"]),
    ),
    "the first versions": (
        [
            {"data": TEXT, "completions": [{**annotation("elm"), "skipped": True}]},
            {
                "data": TEXT,
                "completions": [
                    annotation("fir", completed_by=None, created_username=" ann@x.org, 1")
                ],
            },
        ],
        (("ann@x.org",), ["fir"]),
    ),
    "one task": ({"data": TEXT, "annotations": [annotation("oak")]}, (("1",), ["oak"])),
    "drafts, predictions and null": (
        [
            {"id": 1, "data": TEXT, "annotations": None, "drafts": [annotation("elm")]},
            {"id": 2, "data": TEXT, "annotations": [annotation(result=None), annotation()]},
            {"id": 3, "data": TEXT, "annotations": [annotation("oak")], "predictions": [1]},
        ],
        (("1",), ["oak"]),
    ),
    "JSON-MIN": (
        [
            {**TEXT, "id": 0, "annotation_id": 1, "annotator": "a@x.org", "mood": "elm"},
            {**TEXT, "id": 1, "annotation_id": 2, "annotator": 7, "mood": {"choices": ["oak"]}},
            {**TEXT, "id": 2, "annotation_id": 3, "annotator": 7},
        ],
        (("7", "a@x.org"), ["elm", "oak"]),
    ),
    "fields with our names": (
        [{"data": {"task": "x", "not": "y"}, "annotations": [annotation("elm")]}],
        (("1",), ["elm"]),
    ),
}


def test_an_export_as_a_table_is_imported(tmp_path):
    (tmp_path / "ls.csv").write_text(
        "annotation_id,annotator,choice,created_at,id,image,lead_time\n"
        "1,ann@x.org,elm,2026-05-01T10:00:00Z,1,C:\\in\\1.png,2.5\n"
        '2,7,"{""choices"":[""fir"",""oak""]}",,2,/data/upload/1/0a1b2c3d-2.png,-1\n'
        "3,7,elm,,3,/data/local-files/?d=in%5C3.png,1e999\n"
    )
    items = [Item(f"{n}.png") for n in range(1, 4)]
    with make(tmp_path / "t.db", items, kind="images") as task:
        assert import_label_studio(task, tmp_path / "ls.csv")["added"] == 3
        found = [(e["item"], e["annotator"], e["label"], e["seconds"]) for e in task.answers()]
        offered = [each["offered"] for each in task.answers()]
    assert found == [
        ("1.png", "ann@x.org", "elm", 2.5),
        ("2.png", "7", None, None),
        ("3.png", "7", "elm", None),
    ]
    assert offered[1] == "fir|oak"


@pytest.mark.parametrize("tasks, found", FORMS.values(), ids=FORMS)
def test_exports_of_several_versions(tmp_path, tasks, found):
    own = read_own(write(tmp_path / "ls.json", tasks), classes=CLASSES)
    assert (own.annotators, [CLASSES[k] for k in own.label]) == found


def test_fields_of_the_shorter_form_are_named_if_none_is_plain(tmp_path):
    rows = [{"text": "a", "mood": "elm", "id": 1, "annotation_id": 1}]
    with pytest.raises(InvalidInput, match=r"must name the field .*'text', 'mood'"):
        read_own(write(tmp_path / "ls.json", rows))
    assert read_own(tmp_path / "ls.json", label="mood", classes=CLASSES).label.tolist() == [1]


def test_images_of_label_studio_are_found_beside_the_export(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("in/a b.png", "c.png", "in/c.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)

    def read(*places):
        tasks = [{"data": {"image": e}, "annotations": [annotation("elm")]} for e in places]
        tasks.append({"data": {"image": "/data/upload/1/0a1b2c3d-unasked.png"}})
        return read_own(write(tmp_path / "ls.json", tasks), classes=CLASSES)

    own = read("/data/upload/1/0a1b2c3d-a_b.png", "/data/local-files/?d=in/c.png", "c.png")
    assert own.X.shape == (3, 3, 4, 4)
    with pytest.raises(InvalidData, match=r"It has no file for https://x.org/z.png"):
        read("https://x.org/z.png")
    with pytest.raises(InvalidData, match=r"It has several files for s3://x/c.png"):
        read("s3://x/c.png")


def test_items_are_found_in_folders_and_tables(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one")
    assert find_items(tmp_path / "texts") == ("texts", "", [Item("a.txt", {"text": "one"})])
    (tmp_path / "t.csv").write_text("x,is\n1,ash\n2,\n")
    kind, _, items = find_items(tmp_path / "t.csv", true_label="is")
    assert kind == "table"
    assert [item.known for item in items] == ["ash", None]
    (tmp_path / "known.csv").write_text("item,class\na.txt,ash\n")
    assert find_items(tmp_path / "texts", known=tmp_path / "known.csv")[2][0].known == "ash"
    for content, match in (
        (b"item,class\nb.txt,ash\n", "'b.txt' is not among its 1 items"),
        (b"item,kind\na.txt,ash\n", "must be a table with the columns item and class. It has"),
        (b"item,class\na.txt\n", "every row must have 2 cells"),
        (b"item,class\na.txt,\n", "Data row 1 does not"),
        (b"item,class\na.txt,\xff\n", "must be text in UTF-8"),
        (b'item,class\n"a.txt,ash\n', "every row must have 2 cells"),
    ):
        (tmp_path / "known.csv").write_bytes(content)
        with pytest.raises(InvalidData, match=match):
            find_items(tmp_path / "texts", known=tmp_path / "known.csv")
    (tmp_path / "texts" / "b\udcff.txt").write_text("two")
    with pytest.raises(InvalidData, match="must be in UTF-8"):
        find_items(tmp_path / "texts")
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "a.txt")
    with pytest.raises(InvalidData, match="must be an ordinary file"):
        find_items(tmp_path / "pipes")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidData, match="must contain images"):
        find_items(tmp_path / "empty")
    with pytest.raises(InvalidInput, match="at least 3 classes"):
        Settings.of(["a", "b"])
    with pytest.raises(InvalidInput, match="from 2 to 4"):
        Settings.of(CLASSES, n_offered=9)


def test_information_is_largest_where_the_model_is_unsure():
    probs = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4])
    own = type("Own", (), {"is_label": np.array([True])})
    found = expected_information(probs, TransitionMatrix.uniform(4), own)
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert found[2] > found[1] > found[0]
    own.is_label = np.array([False])
    assert (np.diff(expected_information(probs, TransitionMatrix.uniform(4), own)) > 0).all()


def test_agreement_is_of_people_who_could_have_said_the_same():
    frame = pandas.DataFrame(
        [
            ("1", "ann", "ash", "ash|elm"),
            ("1", "bob", "elm", "elm|ash"),  # the same list in another order
            ("2", "ann", "fir", "fir|oak|elm"),
            ("2", "bob", "fir", "ash|fir|oak"),  # both could say fir or oak
            ("3", "ann", "ash", "ash|elm"),
            ("3", "bob", "oak", "fir|oak"),  # nothing in common
            ("4", "ann", "ash", "ash|fir"),
            ("4", "ann", "fir", "ash|fir"),  # one person
        ],
        columns=["id", "who", "not", "offered"],
    ).assign(x=1.0)
    roles = {"label": "not", "annotator": "who", "example_id": "id", "offered": "offered"}
    found = agreement(read_own(frame, **roles, classes=CLASSES, separator="|"))
    # ann says ash 3 times and fir twice, bob each of elm, fir and oak once
    chance = (0.0 + 1.0 * 0.5) / 2
    assert found == {"n_pairs": 2, "same": 0.5, "by_chance": pytest.approx(chance)}


HABITS = {
    "ann": [[0, 0.8, 0.1, 0.1], [0.8, 0, 0.1, 0.1], [0.1, 0.1, 0, 0.8], [0.1, 0.1, 0.8, 0]],
    "bob": [[0, 0.1, 0.1, 0.8], [0.1, 0, 0.8, 0.1], [0.1, 0.8, 0, 0.1], [0.8, 0.1, 0.1, 0]],
}


def answer_all(client, rng, y, habit):
    """Answer all questions with the habit of a person, by the requests of the page."""
    questions = client.get("/api/next").json()["questions"]
    while questions:
        question = questions.pop(0)
        body = {
            "id": str(uuid.uuid4()),
            "deal": question["deal"],
            "said": "not",
            "label": int(rng.choice(4, p=habit[y[int(question["name"])]])),
            "seconds": 1.0,
            "want": 0 if questions else 8,
        }
        said = client.post("/api/answer", json=body).json()
        assert said["status"] == "saved"
        questions = questions or said["questions"]


@pytest.mark.unmeasured
def test_a_crowd_with_known_habits_goes_through_the_page_to_a_model(tmp_path, serve, monkeypatch):
    monkeypatch.setattr(server, "_PER_SECOND", 10_000)  # this crowd is faster than people
    X, y = make_blobs(900, centers=4, cluster_std=1.0, random_state=3)
    rng = np.random.default_rng(0)
    known = rng.choice(900, 120, replace=False)
    items = [
        Item(
            str(n),
            {"u": float(X[n, 0]), "v": float(X[n, 1])},
            CLASSES[y[n]] if n in known else None,
        )
        for n in range(900)
    ]
    with make(tmp_path / "t.db", items, n_answers=2, known_rate=0.3, random_share=1) as task:
        with serve(task) as url:
            for name, habit in HABITS.items():
                with httpx.Client(base_url=url, headers={"x-naysay": "1"}) as client:
                    client.get("/", params={"token": task.invite(name)}).raise_for_status()
                    answer_all(client, rng, y, habit)
        own = read_own(task.name)
        kept = []

        def fit_and_keep(*given, **options):
            kept.append(fit_own(*given, **options))
            return kept[0]

        monkeypatch.setattr(annotation_task, "fit_own", fit_and_keep)
        options = {"learner": "network", "epochs": 40, "transition": None, "seed": 0}
        report, _ = learn_task(task.name, allow_diagonal=False, **options)
    assert len(own.label) == 2 * 900
    clf, fitted = kept[0]
    for name, habit in HABITS.items():
        difference = np.abs(np.asarray(fitted.transitions[name]) - habit)
        assert difference.max() < 0.1
    frame = pandas.concat(
        pandas.DataFrame(
            {
                "u": X[:, 0],
                "v": X[:, 1],
                "id": range(900),
                "who": name,
                "is": [CLASSES[y[n]] if n in known else "" for n in range(900)],
                "not": np.array(CLASSES)[TransitionMatrix(habit).sample(y, seed=5)],
            }
        )
        for name, habit in HABITS.items()
    )
    roles = {"label": "not", "annotator": "who", "example_id": "id", "true_label": "is"}
    direct, _ = fit_own(read_own(frame, **roles, classes=CLASSES), **options)
    new, true = make_blobs(2000, centers=4, cluster_std=1.0, random_state=3)
    scores = [
        (each.predict(new.astype(np.float32)) == np.array(CLASSES)[true]).mean()
        for each in (clf, direct)
    ]
    assert scores[0] > scores[1] - 0.02
    assert {each["name"] for each in report["people"]} == set(HABITS)
    assert report["agreement"]["n_pairs"] == 900
    assert agreement(own)["same"] == pytest.approx(0.17, abs=0.05)
