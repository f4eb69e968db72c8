"""Studies of many runs, for notebooks and generated pages; nothing else in podsim imports them."""
