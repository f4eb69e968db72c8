"""The planner page as Chromium shows it, without a window: wide and narrow, by keyboard alone, from this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pytest

from tests.unit.page_examples import chromium

pytest.importorskip("vl_convert", reason="reports need vl-convert-python")
webdriver = pytest.importorskip("selenium.webdriver", reason="a browser is driven by selenium")
PATHS = chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.ci,
    # Only the server needs it, in a process of its own: its import takes two seconds.
    pytest.mark.skipif(find_spec("nicegui") is None, reason="the planner page needs NiceGUI"),
    # Where CI is set a browser that is missing is a failure: nobody would see that these tests were skipped.
    pytest.mark.skipif(PATHS is None and not os.environ.get("CI"), reason="chromium or chromedriver is not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
WIDE, NARROW = 1280, 400
PATIENCE_S = 60
ANSWERED = """
return document.querySelector(".status")?.innerText.startsWith("Fits.")
  && document.querySelector(".part-scaling figure[data-drawn]") !== null
  && document.querySelectorAll("figure:not([data-drawn])").length === 0
"""
CLOCK = '.q-slider [role="slider"][aria-label="Clock [GHz]"]'


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of the page."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "podsim", "ui", "bert_v1.1_pod16_open", "--no-open", "--port", str(port)]
    # With this, NiceGUI takes itself for its own test.
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    told = process.stderr.readline()
    address = next(each for each in told.split() if each.startswith("http")).rstrip(";")
    for _ in range(10 * PATIENCE_S):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.1)
    yield address
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert PATHS is not None, "chromium or chromedriver is not installed"
    options = webdriver.ChromeOptions()
    options.binary_location = PATHS[0]
    for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(PATHS[1]))
    yield driver
    driver.quit()


def opened(browser: Any, address: str, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    until(browser, ANSWERED)


def until(browser: Any, condition: str) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    def holds(driver: Any) -> Any:
        return driver.execute_script(condition)

    return WebDriverWait(browser, PATIENCE_S, 0.1).until(holds)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_all_of_it_is_seen_at_any_width(browser: Any, server: str, width: int) -> None:
    opened(browser, server, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('figure .chart svg')].map((each) => each.getBoundingClientRect().width)"
    )
    assert len(boxes) >= 4  # where time goes, memory, what would help, scaling
    assert all(0 < box <= width for box in boxes)
    beside = browser.execute_script(
        "return document.querySelector('.answers').getBoundingClientRect().left"
        " >= document.querySelector('aside').getBoundingClientRect().right"
    )
    assert beside is (width == WIDE)
    errors = [each for each in browser.get_log("browser") if each["level"] == "SEVERE"]
    assert errors == []


def test_no_request_leaves_the_machine(browser: Any, server: str) -> None:
    browser.get_log("performance")
    opened(browser, server, WIDE)
    messages = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    asked = [
        message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
    ]
    asked += [message["params"]["url"] for message in messages if message["method"] == "Network.webSocketCreated"]
    assert len(asked) > 4
    host = server.split("/")[2]
    assert {each.split("/")[2] for each in asked if not each.startswith(("data:", "blob:", "chrome"))} == {host}


def test_by_keyboard_alone(browser: Any, server: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(browser, server, WIDE)
    before = browser.execute_script("return document.querySelector('.part-tiles .value').innerText")

    def press(key: str) -> None:
        ActionChains(browser).send_keys(key).perform()

    reached, on_clock = [], f"return document.activeElement === document.querySelector('{CLOCK}')"
    for _ in range(60):
        press(Keys.TAB)
        reached.append(browser.execute_script("return document.activeElement.innerText"))
        if browser.execute_script(on_clock):
            break
    assert reached[0] == "Skip to the answer"
    assert browser.execute_script(on_clock)
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    now = browser.execute_script("return document.activeElement.getAttribute('aria-valuenow')")
    press(Keys.ARROW_RIGHT)
    moved = f"return document.querySelector('.part-tiles .value').innerText !== {json.dumps(before)}"
    until(browser, moved)
    later = browser.execute_script("return document.activeElement.getAttribute('aria-valuenow')")
    assert float(later) == pytest.approx(float(now) + 0.01)
    until(browser, "return location.search.includes('set=system.machine.ipu.clock')")
    until(browser, "return document.querySelector('.part-against').innerText.includes('A is the baseline')")


def test_everything_that_can_be_used_has_a_name(browser: Any, server: str) -> None:
    opened(browser, server, WIDE)
    nameless = browser.execute_script(
        """
        const named = (each) => each.ariaLabel || each.innerText.trim() || each.labels?.length || each.title
          || each.getAttribute("aria-labelledby");
        const usable = ".answers button, aside button, a[href], aside input:not([type=file]), [role=slider],"
          + "[role=switch]";
        return [...document.querySelectorAll(usable)].filter((each) => each.offsetParent !== null && !named(each))
          .map((each) => each.outerHTML.slice(0, 200));
        """
    )
    assert nameless == []
