"""Result files of MLPerf Training: simulated runs written as such, and logged runs compared with predictions."""
