"""Measurements: Draftmill's whole path beside a bare client and peers, in one run, on one engine that costs nothing."""
