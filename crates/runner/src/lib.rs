//! Starts, watches and ends processes and containers.
