"""Routers, one per noun."""
