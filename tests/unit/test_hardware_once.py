"""Hardware that is asked for by name is validated once while its files stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim import cost_collective, memo
from podsim.scenario import load
from podsim.scenario.load import hardware_named
from podsim.scenario.software import Software


def test_shipped_hardware_is_validated_once() -> None:
    assert hardware_named("ipu_pod16", "pod") is hardware_named("ipu_pod16", "pod")
    assert hardware_named("GC200", "ipu") is hardware_named("ipu_gc200", "ipu")
    assert hardware_named("ipu_pod16", "pod") is not hardware_named("ipu_pod64", "pod")


def test_a_changed_file_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that no longer has the content of the shipped one."""
    first = hardware_named("ipu_pod16", "pod")
    monkeypatch.setattr(load, "is_as_shipped", lambda _file: False)
    assert hardware_named("ipu_pod16", "pod") is not first


def test_a_file_of_a_user_is_read_each_time(tmp_path: Path) -> None:
    path, times = tmp_path / "stack.yaml", []
    for call in ("10 ms", "20 ms"):
        path.write_text(f"kind: software\nbase: popart_sdk_2.3\nhost_call: {call}\n", encoding="utf-8")
        stack = hardware_named(str(path), "software")
        assert isinstance(stack, Software)
        times.append(float(stack.host_call_s))
    assert times == [0.01, 0.02]


def test_costs_read_hardware_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod and the stack are validated for the first call alone."""
    loaded: list[str] = []
    whole = load.load_hardware
    memo.HARDWARE.forget()

    def counted(name: str, kind: str) -> object:
        loaded.append(name)
        return whole(name, kind)

    monkeypatch.setattr(load, "load_hardware", counted)
    times = [cost_collective("all-reduce", size, ipus=4).time_s for size in (1e6, 2e6)]
    assert times[0] < times[1]
    assert sorted(loaded) == ["ipu_pod16", "popart_sdk_2.5"]
