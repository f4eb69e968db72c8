"""Seven questions that people bring, each answered by one command, or by one short file and a command.

`tests/contract/test_docs.py` runs the page and compares what is printed; here stands that it keeps what it says.
"""

from __future__ import annotations

import re

from tests.contract.test_docs import ROOT, blocks, commands, is_slow, words

PAGE = ROOT / "docs" / "guides" / "questions.md"
COMMANDS = ("plan", "sweep", "whatif", "import", "plan", "check", "reproduce")
LONGEST_FILE = 12


def sections() -> list[str]:
    return re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


def test_each_question_is_answered_by_one_command_and_a_short_file() -> None:
    assert len(sections()) == len(COMMANDS)
    for section, command in zip(sections(), COMMANDS, strict=True):
        assert section.splitlines()[0].endswith("?") or command == "reproduce"
        asked = [words(line) for block in blocks(section) if block.language == "console" for line in commands(block)]
        asked = [line for line in asked if line[0] in ("podsim", "./dev") and "--accept" not in line]
        assert [line[2] if line[1] == "truth" else line[1] for line in asked] == [command], section
        files = [block.text.splitlines() for block in blocks(section) if block.language == "yaml"]
        assert all(len(lines) <= LONGEST_FILE for lines in files)
        assert "[More](" in section


def test_each_answer_is_compared_with_what_is_printed() -> None:
    for section in sections():
        has_output = any(block.language == "text" for block in blocks(section))
        asked = [words(line) for block in blocks(section) if block.language == "console" for line in commands(block)]
        is_run = not any(line[0] == "./dev" or (line[0] == "podsim" and is_slow(line[1:])) for line in asked)
        assert has_output == is_run, section.splitlines()[0]
