"""Which shipped scenario a logged run belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from podsim.errors import PodsimError
from podsim.mlperf.benchmark import nominal_sequences_per_pack
from podsim.mlperf.logged import Logged
from podsim.report.reference_data import PADDLE, rows, scenario_name

_POD: Final = re.compile(r"pod[\s_-]*(\d+)", re.IGNORECASE)
_BOW: Final = re.compile(r"bow", re.IGNORECASE)
_MONTHS: Final = {
    "v1.0": ("2021-05", "2021-06"),
    "v1.1": ("2021-10", "2021-11"),
    "v2.0": ("2022-04", "2022-05"),
}
"""First and last month in which the runs of a round were logged. Source: [mlperf_logs]."""
_NOMINAL: Final = nominal_sequences_per_pack({"data": {"packing": {"sequences_per_pack": 2.0}}})


def matching_scenario(run: Logged) -> str:
    """The shipped scenario of a logged run: by its benchmark, batch and pod, then by what else it says.

    Raises:
        PodsimError: None is, or several are.
    """
    known = [row for row in rows("mlperf_submissions") if _has_batch(row, run)]
    # A submission of PaddlePaddle is meant where the log names it: its configurations are those of PopART.
    of_batch = [row for row in known if row["framework"] != PADDLE or scenario_name(row) == run.simulated]
    found = [row for row in of_batch if _has_pod(row, run)]
    names = list(dict.fromkeys(scenario_name(row) for row in found if _has_details(row, run)))
    if run.simulated in names:
        return str(run.simulated)
    if len(names) == 1:
        return names[0]
    about = f"{run.benchmark.title} at batch size {run.batch_size:,} on `{run.platform or 'no platform'}`"
    candidates = names or list(dict.fromkeys(scenario_name(row) for row in found or of_batch))
    cure = f"say which: `--scenario {candidates[0]}`" if candidates else "give one of your own: `--scenario FILE`"
    if len(candidates) > 1:
        cure += f", or one of {', '.join(candidates[1:])}"
    what = f"{len(names)} shipped scenarios are of {about}" if names else f"no shipped scenario is of {about}"
    raise PodsimError(what, where=run.name, do=cure)


def logged_batch(row: dict[str, str]) -> int:
    """The batch size that the result files of a submission have."""
    if row["packs_per_step"]:
        return int(row["packs_per_step"]) * _NOMINAL
    return int(row["micro_batch_per_replica"]) * int(row["grad_accum"]) * int(row["replicas"])


def _has_batch(row: dict[str, str], run: Logged) -> bool:
    return row["benchmark"] == run.benchmark.name and logged_batch(row) == run.batch_size


def _has_pod(row: dict[str, str], run: Logged) -> bool:
    """Where the platform names a pod, it is this one."""
    pod = _POD.search(run.platform)
    return pod is None or pod[1] == row["ipus"]


def _has_details(row: dict[str, str], run: Logged) -> bool:
    return all(_details(row, run))


def _details(row: dict[str, str], run: Logged) -> Iterator[bool]:
    """What a log may say and a submission differs in."""
    if run.division is not None:
        yield row["division"] == run.division
    if run.accumulation_factor is not None:
        yield int(row["grad_accum"]) == run.accumulation_factor
    if _BOW.search(run.platform):
        yield bool(_BOW.search(row["system_name"]))
    round_name = next((name for name, (first, last) in _MONTHS.items() if first <= run.month <= last), None)
    if round_name is not None:
        yield row["round"] == round_name
