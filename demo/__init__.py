"""The demo: a small real checkpoint, a prompt set that shows what goes wrong, and the main job run end to end."""
