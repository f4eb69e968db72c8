"""Every published row beside its prediction, once for all tests that need it."""

from __future__ import annotations

import pytest

from podsim.validation.compare import validation
from podsim.validation.comparison import Validation


@pytest.fixture(scope="session")
def everything() -> Validation:
    return validation()
