"""Work: planning samples, running them, writing results, pause, resume, cancel, retry, regenerate."""
