"""How the command line behaves as a tool: how it ends, complains, completes words and treats the files it writes."""
