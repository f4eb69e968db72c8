"""`python -m podsim.study.check.measure HOME PATH...`: what cases give, as JSON; another revision is asked this way."""

import json
import sys
from pathlib import Path

from podsim.study.check.cases import cases_of
from podsim.study.check.run import measure_all


def main(home: str, *paths: str) -> None:
    """Print what every case below the paths gives, named from a folder."""
    cases = list(cases_of([Path(path) for path in paths], Path(home)))
    sys.stdout.write(json.dumps(measure_all(cases, lambda _done, _total: None)))


if __name__ == "__main__":
    main(*sys.argv[1:])
