"""Answers as one page of HTML that needs no network: charts to hover over and zoom, with their numbers below.

The modules named after a command say what its page holds; `parts` are what pages are made of, and `html` writes them.
"""
