"""What we learned: the result of a run, its exact breakdown, and the ways to show it.

`result` holds the numbers, `table` prints them, `plot` draws them and `perfetto` writes the timeline.
Nothing here computes how long a thing takes or when it happens. `table`, `plot` and `frames` load large
libraries: import them where they are used.
"""
