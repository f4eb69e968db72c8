"""Planner page: questions, their answers as parts of reports, and the server."""
