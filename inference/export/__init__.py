"""Accepted samples as files that trainers read: one module per target over one stream of rows."""
