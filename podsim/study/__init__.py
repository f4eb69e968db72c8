"""Many runs: sweeps, comparisons, checks and capacity planning."""
