"""The documentation site: every page is in its navigation, every link has a target, nothing is fetched."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from podsim._version import __version__
from tests.cases import every_case
from tests.contract.test_docs import PAGES, ROOT, TEXTS, anchors, in_root
from tests.unit.page_examples import chromium
from tools.make_site import faults, linked, links_of, navigation, page_of_notebook, source_of, terms, with_targets

NAVIGATION = navigation()
SOURCES = {source_of(page) for page in NAVIGATION}


def test_every_page_is_in_the_navigation_once() -> None:
    notebooks = {path.relative_to(ROOT).with_suffix(".md").as_posix() for path in ROOT.glob("notebooks/*.ipynb")}
    assert sorted(NAVIGATION) == sorted({in_root(page) for page in PAGES} | notebooks)


@every_case("page", lambda: [page for page in PAGES if page in SOURCES])
def test_links_lead_to_pages_of_the_site_or_to_files(page: Path) -> None:
    targets = {(page.parent / link).resolve() for link in links_of(TEXTS[page])}
    assert {path for path in targets if path.is_dir()} == set()
    assert {path for path in targets if path.suffix in {".md", ".ipynb"}} <= SOURCES


# Words of the glossary

GLOSSARY = """| word | meaning |
|---|---|
| **gateway** | the part that `hosts` reach |
| **ladder, rung** | two IPUs |
"""


def test_a_word_is_linked_where_a_sentence_first_has_it() -> None:
    text = (
        "# A gateway\n\nThe `gateway` and [a gateway](x.md) of gateways.\nA gateway.\n\n```text\ngateway\n```\n"
        "| gateway |\n"
    )
    link = '[gateways](../GLOSSARY.md#word-gateway "the part that hosts reach")'
    assert linked(text, terms(GLOSSARY), "../GLOSSARY.md") == text.replace("gateways", link)


def test_the_longest_word_is_linked() -> None:
    words = {"memory": "any", "streaming memory": "off the chip"}
    assert linked("In streaming memory.\n", words, "G.md") == (
        'In [streaming memory](G.md#word-streaming-memory "off the chip").\n'
    )


def test_words_that_share_a_row_have_a_target_each() -> None:
    assert '<a id="word-ladder"></a><a id="word-rung"></a>**ladder, rung**' in with_targets(GLOSSARY)
    assert terms(GLOSSARY)["rung"] == "two IPUs"


def test_every_word_of_the_glossary_has_a_target_of_its_own() -> None:
    text = TEXTS[ROOT / "GLOSSARY.md"]
    targets = re.findall(r'<a id="(word-[\w-]+)"></a>', with_targets(text))
    assert len(set(targets)) == len(targets) == len(terms(text)) >= text.count("\n| **") > 50
    assert set(targets).isdisjoint(anchors(text))


# Notebooks


def test_a_notebook_is_a_page_with_its_outputs(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "4\n"},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": "aGVsbG8="}},
    ]
    code = {"cell_type": "code", "id": "b", "metadata": {}, "execution_count": 1, "source": "2 + 2", "outputs": outputs}
    text = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Sums"}
    path = tmp_path / "sums.ipynb"
    path.write_text(json.dumps({"cells": [text, code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert page_of_notebook(path, tmp_path, "sums") == (
        "# Sums\n\n```python\n2 + 2\n```\n\n```text\n4\n```\n\n![Output of the lines above](sums_1_1.png)\n"
    )
    assert (tmp_path / "sums_1_1.png").read_bytes() == b"hello"


# What was built


def test_links_that_lead_nowhere_and_foreign_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h2 id="here">Here</h2><a href="https://example.org">elsewhere</a>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">b</a> <a href="b.html#there">b</a> <a href="c.html">c</a> <img src="d.png">'
        '<script src="https://example.org/x.js"></script><link rel="stylesheet" href="//example.org/x.css">'
    )
    assert faults(tmp_path) == [
        "a.html: loads https://example.org/x.js from elsewhere",
        "a.html: loads //example.org/x.css from elsewhere",
        "a.html: b.html#there leads nowhere",
        "a.html: c.html leads nowhere",
        "a.html: d.png leads nowhere",
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="the site is built by zensical")
    from tools.make_site import build

    return build(tmp_path_factory.mktemp("built"))


@pytest.mark.slow
@pytest.mark.ci
def test_the_site_has_every_page_the_version_and_search(site: Path) -> None:
    built = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")}
    assert {page for page in NAVIGATION if not page.endswith("README.md")} <= built
    assert f"podsim {__version__}" in (site / "index.html").read_text(encoding="utf-8")
    found = {item["location"].partition("#")[0] for item in json.loads((site / "search.json").read_text())["items"]}
    assert {"docs/guides/plan.html", "GLOSSARY.html", "notebooks/packing.html"} <= found


IN_DIALOG = """const isSearch = (each) => each.shadowRoot?.querySelector("dialog[open]");
const host = [...document.querySelectorAll("*")].find(isSearch);
return [...(host?.shadowRoot.querySelectorAll(arguments[0]) ?? [])].map((each) => each.href ?? each.tagName);"""


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(chromium() is None and not os.environ.get("CI"), reason="chromium is not installed")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_search_works_in_a_page_that_was_opened_as_a_file_and_asks_no_server(site: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver", reason="a browser is driven by selenium")
    ui = pytest.importorskip("selenium.webdriver.support.ui")
    paths = chromium()
    assert paths is not None
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(paths[1]))
    try:
        driver.get((site / "docs" / "guides" / "plan.html").as_uri())
        driver.execute_script("document.querySelector('.md-search__button').click()")
        wait = ui.WebDriverWait(driver, 20)
        wait.until(lambda _: driver.execute_script(IN_DIALOG, "input"))
        driver.switch_to.active_element.send_keys("streaming memory")
        found = wait.until(lambda _: driver.execute_script(IN_DIALOG, "a"))
        asked = [json.loads(each["message"])["message"] for each in driver.get_log("performance")]
        complaints = driver.get_log("browser")
    finally:
        driver.quit()
    urls = [each["params"]["request"]["url"] for each in asked if each["method"] == "Network.requestWillBeSent"]
    assert "docs/background/streaming-memory.html" in found[0]
    assert urls
    assert [url for url in urls if not url.startswith(("file:", "data:", "about:"))] == []
    assert complaints == []
