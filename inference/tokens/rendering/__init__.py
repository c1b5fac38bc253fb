"""Conversations to exact prompt ids, and what to warn of before a GPU hour is spent on them."""

from inference.tokens.rendering.messages import RenderWarning
from inference.tokens.rendering.render import DATE_KEY, Rendering, flat_ids, render

__all__ = ["DATE_KEY", "RenderWarning", "Rendering", "flat_ids", "render"]
