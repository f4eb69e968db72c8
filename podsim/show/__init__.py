"""Renderers of reports, tables and charts: text, Markdown, HTML, CSV, matplotlib and pandas."""
