"""How an answer looks: tables as data, and what writes them."""
