"""The regression gate: does what scenarios say still hold, and what has moved it?"""
