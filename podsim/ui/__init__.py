"""The planner page: questions, their answers as parts of reports, and the server that shows them on this machine."""
