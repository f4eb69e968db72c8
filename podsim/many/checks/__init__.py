"""The regression gate: does what scenarios say still hold, and what has moved it?"""

from podsim.many.checks.cases import Case, cases_of
from podsim.many.checks.verdict import Issue, Verdict, check

__all__ = ["Case", "Issue", "Verdict", "cases_of", "check"]
