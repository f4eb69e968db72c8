"""What was learned: the result of a run, its exact breakdown, and how sure it is.

Nothing here computes how long a thing takes or when it happens. `frames` loads pandas: import it where it is used.
"""
