"""The loop that brings every backend from what it is to what it should be, and writes down what it saw."""
