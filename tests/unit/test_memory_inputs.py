"""Uncertain inputs of memory: what is known to have run fits wherever in their ranges they lie."""

from __future__ import annotations

import pytest

from podsim.errors import PodsimError
from podsim.plan.forward_job import forward_job
from podsim.plan.generation import plan_generation
from podsim.plan.generation_job import generation_job
from podsim.plan.job import training_job
from podsim.plan.plan import make_plan
from podsim.specs import load_scenario
from podsim.specs.assumptions import assumptions, with_number
from podsim.validation.envelope import compared_titles
