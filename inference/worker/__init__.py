"""The worker: one process beside the app that keeps servers up, does runs and writes exports. Killed at any time, it loses nothing."""
