"""Conversations to exact prompt ids, and what to warn of before a GPU hour is spent on them."""

from inference.tokens.rendering.arguments import DATE_KEY
from inference.tokens.rendering.render import Rendering, flat_ids, render
from inference.tokens.rendering.warning import RenderWarning

__all__ = ["DATE_KEY", "RenderWarning", "Rendering", "flat_ids", "render"]
