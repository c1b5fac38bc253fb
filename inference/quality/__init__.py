"""Checks that look at one sample, and the guard that looks at many. Pure."""
