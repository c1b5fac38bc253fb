"""An upload becomes prompts: file formats, message shapes, per-row errors. Knows no runs and no tokens."""
