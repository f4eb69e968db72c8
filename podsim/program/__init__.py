"""The hand-over between plan and engine: tasks with durations, in order."""
