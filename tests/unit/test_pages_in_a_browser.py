"""Pages as Chromium shows them, without a window: drawn whole, without complaints, and usable by keyboard.

All pages are opened once, by one browser; tests look at what was noted then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from podsim import run
from podsim.report.report import Report
from podsim.show.html_page import write_page
from podsim.show.vega_charts import vega_spec
from tests.unit.page_examples import BERT, CALL, CALLS, EVIL, LINK, TIMES, charts_of, chromium, pages

pytest.importorskip("vl_convert", reason="pages need vl-convert-python")
webdriver = pytest.importorskip("selenium.webdriver", reason="a browser is driven by selenium")
PATHS = chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.ci,
    # Where CI is set a browser that is missing is a failure: nobody would see that these tests were skipped.
    pytest.mark.skipif(PATHS is None and not os.environ.get("CI"), reason="chromium or chromedriver is not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
WIDE, NARROW = 1280, 400
KINDS = (
    "run",
    "forward",
    "generate",
    "serve",
    "line",
    "lines",
    "bars",
    "map",
    "maps",
    "axes",
    "compare",
    "plan",
    "check",
    "evil",
)
LOOK = """
const figures = [...document.querySelectorAll("figure")].map((figure) => {
  const svg = figure.querySelector(".chart svg");
  const box = svg ? svg.getBoundingClientRect() : { width: 0, height: 0 };
  const marks = svg ? [...svg.querySelectorAll(".mark-rect path, .mark-symbol path, .mark-line path")] : [];
  const seen = marks.filter((mark) => {
    const { width, height } = mark.getBoundingClientRect();
    return width + height > 0;
  });
  const fills = new Set(marks.map((mark) => mark.getAttribute("fill") ?? ""));
  const wanted = [...fills].filter((fill) => fill.startsWith("url(#"));
  return {
    drawn: figure.dataset.drawn, width: box.width, height: box.height, marks: marks.length, seen: seen.length,
    right: box.right, missing: wanted.filter((fill) => !document.querySelector(fill.slice(4, -1))),
  };
});
const charts = [...document.querySelectorAll("figure")].map((figure) => {
  const view = figure.drawn.view;
  const found = { axes: {}, marks: [] };
  const below = (item, role) => (item.items ?? []).flatMap((each) =>
    each.role === role ? each.items : below(each, role));
  const walk = (item) => {
    for (const mark of item.items ?? []) {
      if (mark.role === "axis") {
        for (const axis of mark.items) {
          const title = below(axis, "axis-title").map((each) => each.text).join(" ");
          const texts = below(axis, "axis-label").map((each) => each.text);
          if (title || texts.length) found.axes[axis.orient] = { title, texts };
        }
      } else if (mark.role === "mark" && mark.marktype !== "group") {
        for (const { x, y, width, height, align, text, datum } of mark.items) {
          found.marks.push({ kind: mark.marktype, x, y, width, height, align, text, datum });
        }
      } else {
        walk(mark);
      }
    }
  };
  walk(view.scenegraph().root);
  const scale = (name) => { try { return view.scale(name); } catch { return null; } };
  found.domains = { x: scale("x")?.domain() ?? null, y: scale("y")?.domain() ?? null };
  for (const each of found.marks) {
    each.at = [scale("x")?.invert?.(each.x) ?? null, scale("y")?.invert?.(each.y) ?? null];
  }
  return JSON.parse(JSON.stringify(found));
});
const root = document.documentElement;
return { figures, charts, scroll: root.scrollWidth, broken: window.broken ?? null, title: document.title };
"""


@dataclass
class Seen:
    """What was seen of a page at a width."""

    look: dict[str, Any]
    complaints: list[str]
    requests: list[str]


@dataclass
class Visit:
    """All that was seen."""

    pages: dict[str, Report]
    seen: dict[tuple[str, int], Seen] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def open_browser(folder: Path) -> Any:
    assert PATHS is not None, "install chromium and chromedriver: apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = PATHS[0]
    flags = (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"),
        *("disable-component-update", "disable-sync", "disable-dev-shm-usage", f"user-data-dir={folder / 'profile'}"),
    )
    for flag in flags:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=PATHS[1]))
    browser.get("about:blank")
    browser.get_log("performance")  # of the tab that the browser begins with
    return browser


def look_at(browser: Any, address: str, width: int) -> Seen:
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    WebDriverWait(browser, 30).until(lambda each: each.execute_script("return document.documentElement.dataset.ready"))
    look = browser.execute_script(LOOK)
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return Seen(look, complaints, [each for each in asked if not each.startswith(("data:", "file:", "chrome"))])


def shown(browser: Any) -> list[float]:
    """Ends of what the timeline shows."""
    script = "const view = document.querySelector('figure[data-zoom]').drawn.view;"
    found: list[float] = browser.execute_script(f"{script} return [view.signal('shown_from'), view.signal('shown_to')]")
    return found


def use_the_keyboard(browser: Any, visit: Visit) -> None:
    """From the top of the page by the tabulator: into the tools of the timeline, and the timeline itself."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        ActionChains(browser).send_keys(*keys).perform()

    at = "const at = document.activeElement;"
    focused = f"{at} return [at.tagName, at.textContent.trim().slice(0, 40), at.className].join(' ')"
    visit.keys["start"] = shown(browser)
    for _ in range(60):
        press(Keys.TAB)
        visit.order.append(browser.execute_script(focused))
        name = visit.order[-1]
        if name.startswith("BUTTON All of it"):
            press(Keys.ENTER)
            visit.keys["whole"] = shown(browser)
        elif name.startswith("BUTTON +"):
            press(Keys.SPACE)
            visit.keys["in"] = shown(browser)
        elif name.startswith("DIV") and " chart" in name:
            press(Keys.ARROW_LEFT)
            visit.keys["left"] = shown(browser)
            press("0")
            visit.keys["zero"] = shown(browser)
            return


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    folder = tmp_path_factory.mktemp("pages")
    visit = Visit(pages())
    browser = open_browser(folder)
    try:
        for name, page in visit.pages.items():
            write_page(page, folder / f"{name}.html")
            for width in (WIDE, NARROW):
                visit.seen[name, width] = look_at(browser, (folder / f"{name}.html").as_uri(), width)
        look_at(browser, (folder / "run.html").as_uri(), WIDE)
        use_the_keyboard(browser, visit)
    finally:
        browser.quit()
    yield visit


def test_every_chart_is_drawn_whole_and_without_a_complaint(visit: Visit) -> None:
    assert set(visit.pages) == set(KINDS)
    for (name, width), seen in visit.seen.items():
        assert seen.complaints == [], (name, width)
        charts = charts_of(visit.pages[name])
        assert len(seen.look["figures"]) == len(charts) > 0, name
        for figure, chart in zip(seen.look["figures"], charts, strict=True):
            place = (name, width, chart.title)
            assert figure["drawn"] == "yes", place
            assert figure["seen"] > 0, place
            assert figure["height"] > 30, place
            assert figure["missing"] == [], place


def test_a_chart_has_a_bar_for_each_number(visit: Visit) -> None:
    chart = charts_of(visit.pages["run"])[0]
    bars = vega_spec(chart)["data"]["values"]
    for width in (WIDE, NARROW):
        assert visit.seen["run", width].look["figures"][0]["marks"] == len(bars)


def seen_chart(visit: Visit, name: str) -> dict[str, Any]:
    """Axes, marks and domains of the first chart of a page, as the browser has them."""
    charts: list[dict[str, Any]] = visit.seen[name, WIDE].look["charts"]
    return charts[0]


def rate(**keys: str) -> float:
    """What the model says, and not what the page was given."""
    overrides = [f"{ {'call': CALL, 'link': LINK}[name] }={value}" for name, value in keys.items()]
    return dict(run(BERT, overrides=overrides).figures())["throughput_samples_per_s"]  # type: ignore[return-value]


def test_a_line_is_of_the_figure_over_the_key(visit: Visit) -> None:
    chart = seen_chart(visit, "line")
    assert chart["axes"]["bottom"]["title"] == "host call [ms]"
    assert chart["axes"]["left"]["title"] == "throughput [samples/s]"
    points = sorted(mark["at"] for mark in chart["marks"] if mark["kind"] == "symbol")
    assert points == [pytest.approx([float(each.split()[0]), rate(call=each)], rel=1e-5) for each in TIMES]
    corners = sorted(mark["at"] for mark in chart["marks"] if mark["kind"] == "line")
    assert corners == points
    (low, high), (foot, top) = chart["domains"]["x"], chart["domains"]["y"]
    assert (low <= 100, high >= 136, foot) == (True, True, 0)
    assert top >= max(at[1] for at in points)


def test_a_heat_map_stands_upright_with_the_figure_of_each_cell(visit: Visit) -> None:
    """The key with fewer values stands upwards, as in a file."""
    chart = seen_chart(visit, "map")
    assert (chart["axes"]["left"]["title"], chart["axes"]["bottom"]["title"]) == (
        "IPU link: bandwidth per direction [GB/s]",
        "host call [ms]",
    )
    cells = [mark for mark in chart["marks"] if mark["kind"] == "rect"]
    assert len(cells) == 2 * 6  # the grey ones below, and the coloured ones
    place = {(mark["datum"]["k0"], mark["datum"]["k1"]): (mark["x"], mark["y"]) for mark in cells}
    for call in CALLS:
        assert place["8", call][1] > place["16", call][1]  # pixels count from the top: small values are below
    for link in ("8", "16"):
        across = [place[link, call][0] for call in CALLS]
        assert across == sorted(across)
    assert chart["domains"]["y"] == ["16", "8"]  # from the top
    texts = [mark for mark in chart["marks"] if mark["kind"] == "text"]
    assert len(texts) == 6
    for mark in texts:
        link, call = mark["datum"]["k0"], mark["datum"]["k1"]
        wanted = rate(call=f"{call} ms", link=f"{link} GB/s")
        assert float(mark["text"].replace(",", "")) == pytest.approx(wanted, rel=5e-4)
        (x, y), box = place[link, call], cells[0]
        assert (x < mark["x"] < x + box["width"], y < mark["y"] < y + box["height"]) == (True, True)


def test_of_three_keys_the_rows_of_one_stand_together(visit: Visit) -> None:
    chart = seen_chart(visit, "maps")
    assert chart["axes"]["left"]["title"] == "IPU link: bandwidth per direction [GB/s] · setup [s]"
    assert chart["domains"]["y"] == ["8 · 9", "8 · 1", "16 · 9", "16 · 1"]  # from the top
    assert len([mark for mark in chart["marks"] if mark["kind"] == "text"]) == 12


def test_a_key_of_words_tells_lines_apart_and_what_has_no_figure_is_a_cross(visit: Visit) -> None:
    """Without recomputation BERT fits at no host call."""
    chart = seen_chart(visit, "lines")
    symbols = [mark for mark in chart["marks"] if mark["kind"] == "symbol" and "name" in mark["datum"]]
    points = {(mark["datum"]["name"], mark["at"][0]): mark["at"][1] for mark in symbols}
    known = {("recomputation: layer", float(call)): rate(call=f"{call} ms") for call in CALLS}
    missing = {("does not fit", float(call)): 0 for call in CALLS}
    assert points == pytest.approx(known | missing, rel=1e-5, abs=1e-6)


def test_a_key_of_words_alone_has_bars(visit: Visit) -> None:
    chart = seen_chart(visit, "bars")
    assert chart["domains"]["y"] == ["layer", "none"]
    bar, empty = [mark for mark in chart["marks"] if mark["kind"] == "rect"]
    assert empty["datum"]["end"] == 0
    assert (chart["domains"]["x"][0], bar["datum"]["row"]) == (0, "layer")
    assert bar["datum"]["end"] == pytest.approx(rate(), rel=1e-5)
    texts = {mark["datum"]["row"]: mark["text"] for mark in chart["marks"] if mark["kind"] == "text"}
    assert texts["none"] == "does not fit"
    number, unit = texts["layer"].split()
    assert (float(number.replace(",", "")), unit) == (pytest.approx(rate(), rel=5e-4), "samples/s")


def test_parallel_axes_have_a_line_for_each_point_through_its_values(visit: Visit) -> None:
    chart = seen_chart(visit, "axes")
    titles = ["host call [ms]", "IPU link: bandwidth per direction [GB/s]", "setup [s]", "accumulation factor"]
    assert chart["axes"]["top"]["texts"] == titles
    corners = [mark for mark in chart["marks"] if mark["kind"] == "line"]
    assert {mark["datum"]["point"] for mark in corners} == set(range(24))
    assert len(corners) == 4 * 24
    heights = {
        "p0": dict(zip(CALLS, (0, 0.5, 1), strict=True)),
        "p1": {"8": 0, "16": 1},
        "p2": {"1": 0, "9": 1},
        "p3": {"450": 0, "460": 1},
    }
    for mark in corners:
        axis = mark["datum"]["axis"]
        assert mark["at"][1] == pytest.approx(heights[axis][mark["datum"][f"k{axis[1]}"]])


def test_texts_stand_on_the_side_of_their_bars_where_there_is_room(visit: Visit) -> None:
    chart = seen_chart(visit, "run")
    low, high = chart["domains"]["x"]
    texts = [mark for mark in chart["marks"] if mark["kind"] == "text" and mark["datum"].get("side")]
    assert {mark["datum"]["side"] for mark in texts} >= {"left", "right"}
    for mark in texts:
        begin, end = sorted((mark["datum"]["start"], mark["datum"]["end"]))
        ends = {"right": (end, "left"), "left": (begin, "right"), "inside": ((begin + end) / 2, "center")}
        at, align = ends[mark["datum"]["side"]]
        assert (mark["at"][0], mark["align"]) == (pytest.approx(at, abs=1e-6 * (high - low)), align)
        room = high - at if align == "left" else at - low
        assert align == "center" or room > 0.35 * (high - low)


def test_nothing_is_wider_than_the_screen(visit: Visit) -> None:
    for (name, width), seen in visit.seen.items():
        assert seen.look["scroll"] <= width, (name, width)
        for figure in seen.look["figures"]:
            assert figure["right"] <= width, (name, width)
            assert figure["width"] > 0.7 * min(width, 1000), (name, width)


def test_no_request_leaves_the_machine(visit: Visit) -> None:
    assert {place: seen.requests for place, seen in visit.seen.items() if seen.requests} == {}


def test_what_users_write_is_shown_and_not_run(visit: Visit) -> None:
    for width in (WIDE, NARROW):
        look = visit.seen["evil", width].look
        assert (look["broken"], look["title"]) == (None, EVIL)


def test_the_timeline_is_zoomed_by_keyboard_alone(visit: Visit) -> None:
    keys = visit.keys
    begin, end = keys["whole"]
    assert begin == 0
    assert keys["start"] != keys["whole"]
    length = end - begin
    assert keys["in"] == pytest.approx([begin + length / 4, end - length / 4])
    assert keys["left"] == pytest.approx([begin + length / 8, end - 3 * length / 8])
    assert keys["zero"] == pytest.approx(keys["whole"])


def test_the_tabulator_goes_down_the_page(visit: Visit) -> None:
    first = next(number for number, each in enumerate(visit.order) if each.startswith("SUMMARY"))
    assert visit.order[0].startswith("A Skip to the content")
    assert [each.split()[0] for each in visit.order[:first]] == ["A"] * first
    assert visit.order[-1].startswith("DIV")
