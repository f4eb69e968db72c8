"""Studies that are shipped: each is found by its name, is what its command takes, and is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.scenario import load_scenario, shipped_names
from podsim.scenario.catalogue import ListedStudy, catalogue
from podsim.scenario.library import shipped
from podsim.study.check.measure import cases_of
from podsim.study.plan import read_goal
from podsim.study.points import read_study

ROOT = Path(__file__).resolve().parent.parent.parent
STUDIES = catalogue().studies
each_study = pytest.mark.parametrize("study", STUDIES, ids=[each.name for each in STUDIES])


def test_names_stand_for_one_thing() -> None:
    names = shipped_names()
    assert names["studies"] == [each.name for each in STUDIES]
    assert set(names["studies"]) & {*names["scenarios"], *names["systems"], *names["software"]} == set()


@each_study
def test_a_study_is_what_its_command_takes(study: ListedStudy) -> None:
    file = shipped(study.name, "study")
    assert file is not None and study.description
    match study.command:
        case "sweep":
            points = list(read_study(study.name).points())
            assert len(points) > 1 and not any(point.problem for point in points)
        case "plan":
            goal = read_goal(file)
            for scenario in [job.scenario for job in goal.jobs] or [goal.scenario]:
                load_scenario(scenario, goal.variant, goal.overrides)
        case "check":
            assert all(load_scenario(case.path, case.variant).spec.expect for case in cases_of([file], file.parent))
        case "serve":
            assert load_scenario(study.name).has_key("serving")
        case _:
            pytest.fail(study.command)


@each_study
def test_a_study_is_explained(study: ListedStudy) -> None:
    guide = (ROOT / "docs" / "guides" / "studies.md").read_text(encoding="utf-8")
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "studies").glob("*.md")]
    asked = f"podsim {study.command} {study.name}"
    assert f"`{asked}`" in guide
    assert sum(f"$ {asked}" in page for page in pages) == 1


def test_a_chart_is_drawn_for_each_picture() -> None:
    pictures = {path.stem for path in (ROOT / "docs" / "studies").glob("*.png")}
    text = (ROOT / "tools" / "draw_studies.py").read_text(encoding="utf-8")
    assert {name for name in shipped_names()["studies"] if f'"{name}"' in text} == pictures
