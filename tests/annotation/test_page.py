"""The page in a real browser: keys and touch, undo, reload, offline, several people at once."""

import time

import pytest
import sqlalchemy as sa
from PIL import Image

from naysay._base.task_tables import answer_table, deal_table
from naysay.annotation import retraining
from naysay.annotation.questions import Settings, find_items
from naysay.annotation.store import Task, create

CLASSES = ("cat", "dog", "owl")


@pytest.fixture
def task(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for n in range(30):
        Image.new("RGB", (40, 30), (8 * n, 90, 120)).save(photos / f"{n}.png")
    kind, root, items = find_items(photos)
    settings = Settings.of(CLASSES, kind=kind, root=root, title=f"photos {time.time()}")
    create(tmp_path / "task.db", settings, items)
    with Task(tmp_path / "task.db") as opened:
        yield opened


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.03)
    raise AssertionError("it did not happen")


def answers(task):
    query = (
        sa.select(answer_table.c.said, answer_table.c.label, answer_table.c.seconds)
        .where(answer_table.c.withdrawn.is_(None))
        .order_by(answer_table.c.answered)
    )
    return task.read(lambda connection: connection.execute(query).all())


def open_page(browser, url, width=1280, height=800):
    browser.set_window_size(width, height)
    browser.get(url)
    until(lambda: browser.find_elements("css selector", "#options button"))
    until(lambda: browser.find_elements("css selector", "#stage img"))


def press(browser, keys):
    browser.find_element("css selector", "body").send_keys(keys)


def shown(browser):
    return browser.execute_script("return waiting[0] && waiting[0].deal")


def test_one_key_answers_saves_and_shows_the_next(browser, task, serve):
    with serve(task) as url:
        open_page(browser, url)
        place = browser.execute_script("return JSON.stringify(options.getBoundingClientRect())")
        first = shown(browser)
        took = browser.execute_script(
            "const before = performance.now(), deal = waiting[0].deal;"
            "document.querySelector('#options button').click();"
            "return waiting[0].deal !== deal ? performance.now() - before : 1e9"
        )
        assert took < 100  # the next example was fetched ahead
        until(lambda: len(answers(task)) == 1)
        press(browser, "2")
        press(browser, "0")
        until(lambda: len(answers(task)) == 3)
        assert [row.said for row in answers(task)] == ["not", "not", "unknown"]
        assert [row.label for row in answers(task)] == [0, 1, None]
        assert "3 of 30" in browser.find_element("id", "count").text
        after = browser.execute_script("return JSON.stringify(options.getBoundingClientRect())")
        assert place == after  # nothing moved
        # undo by key, and by the back button of the browser
        press(browser, "u")
        until(lambda: len(answers(task)) == 2)
        browser.back()
        until(lambda: len(answers(task)) == 1)
        assert browser.find_elements("css selector", "#options button.before")
        browser.back()
        until(lambda: len(answers(task)) == 0)
        assert shown(browser) == first
        # later is not recorded
        press(browser, "l")
        assert shown(browser) != first
        press(browser, "z")
        assert "zoomed" in browser.find_element("id", "stage").get_attribute("class")
        severe = [each for each in browser.get_log("browser") if each["level"] == "SEVERE"]
        assert not severe


def test_reload_shows_the_same_question_and_undo_still_works(browser, task, serve):
    with serve(task) as url:
        open_page(browser, url)
        press(browser, "1")
        until(lambda: len(answers(task)) == 1)
        question = shown(browser)
        open_page(browser, url)
        assert shown(browser) == question
        press(browser, "u")
        until(lambda: len(answers(task)) == 0)


def test_answers_given_offline_are_kept_and_sent_later(browser, task, serve):
    with serve(task) as url:
        open_page(browser, url)
        port = int(url.rpartition(":")[2])
    press(browser, "1")
    press(browser, "2")
    banner = browser.find_element("id", "banner")
    until(lambda: banner.is_displayed() and "2 answers are kept here" in banner.text)
    with serve(task, port=port):
        until(lambda: len(answers(task)) == 2)
        until(lambda: not banner.is_displayed())


def test_a_phone_has_large_buttons_and_no_scrolling(browser, task, serve):
    with serve(task) as url:
        size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        touch = {"enabled": True, "maxTouchPoints": 1}
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", touch)
        try:
            open_page(browser, url)
            root = "document.documentElement"
            assert browser.execute_script(f"return {root}.scrollWidth") == 390
            assert browser.execute_script(f"return {root}.scrollHeight") <= 844
            buttons = browser.find_elements("css selector", "#options button, #more button")
            visible = [each for each in buttons if each.is_displayed()]
            assert min(each.size["height"] for each in visible) >= 44
            place = visible[1].rect
            point = {"x": place["x"] + place["width"] / 2, "y": place["y"] + place["height"] / 2}
            for kind, points in (("touchStart", [point]), ("touchEnd", [])):
                browser.execute_cdp_cmd(
                    "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
                )
            until(lambda: [row.label for row in answers(task)] == [1])
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_nothing_moves_on_a_phone_between_kinds_of_questions(browser, tmp_path, serve):
    column = "a name of a column that is longer than a phone is wide"
    (tmp_path / "t.csv").write_text("\n".join([column, *map(str, range(40))]) + "\n")
    kind, root, items = find_items(tmp_path / "t.csv")
    names = ["cat", "dog", "a name that is so long that it needs three lines on a phone", "owl"]
    title = f"table {time.time()}"
    settings = Settings.of(names, kind=kind, root=root, ask="both", n_offered=3, title=title)
    create(tmp_path / "both.db", settings, items)
    with Task(tmp_path / "both.db") as both, serve(both) as url:
        size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            browser.get(url)
            until(lambda: browser.find_elements("css selector", "#options button"))
            assert browser.find_element("css selector", "dd").size["width"] > 150
            places, kinds = set(), set()
            for _ in range(12):
                kinds.add(browser.execute_script("return waiting[0].question"))
                script = "return ['stage', 'more'].map((each) => $(each).getBoundingClientRect().y)"
                places.add(tuple(browser.execute_script(script)))
                press(browser, "0")
            assert kinds == {"which", "yes-no"}
            assert len(places) == 1
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_two_people_at_once_get_different_examples(browser, task, serve):
    with serve(task) as url:
        windows = []
        for name in ("Ann", "Bob"):
            # "localhost" and "127.0.0.1" keep their cookies apart
            host = url.replace("127.0.0.1", "localhost") if name == "Bob" else url
            browser.switch_to.new_window("tab")
            open_page(browser, f"{host}/?token={task.invite(name)}")
            assert "token" not in browser.current_url
            windows.append(browser.current_window_handle)
        for window in windows * 3:
            browser.switch_to.window(window)
            press(browser, "1")
        until(lambda: len(answers(task)) == 6)
        deals = task.read(lambda connection: connection.execute(sa.select(deal_table)).all())
        assert len({deal.item for deal in deals}) == len(deals)
        assert len({deal.person for deal in deals}) == 2


def test_the_overview_shows_figures_makes_links_and_learns(browser, task, serve, monkeypatch):
    with serve(task) as url:
        open_page(browser, url)
        press(browser, "1")
        until(lambda: len(answers(task)) == 1)
        browser.get(f"{url}/owner")
        until(lambda: "of 30 answers" in browser.find_element("id", "figures").text)
        browser.find_element("id", "name").send_keys("Ann")
        browser.find_element("css selector", "#invite button").click()
        until(lambda: "?token=" in browser.find_element("id", "link").text)
        until(lambda: "me (owner)" in browser.find_element("id", "people").text)
        task.save_estimate(
            {"n_answers": 1, "accuracy": {"value": 0.9, "interval": [0.8, 0.95]}}, []
        )
        browser.set_window_size(500, 800)
        browser.refresh()
        until(lambda: browser.find_elements("css selector", "#growth svg"))
        chart = browser.find_element("css selector", "#growth svg")
        assert chart.size["height"] > 200  # its text has its size on a small screen too
        # a script that fails in place of the command, which would load torch
        monkeypatch.setattr(
            retraining, "_LEARN", ("-S", "-c", "raise SystemExit('error: too few')")
        )
        browser.find_element("id", "learn").click()
        learning = browser.find_element("id", "learning")
        until(lambda: learning.text == "too few")
        assert "problem" in learning.get_attribute("class")
