"""This machine: processes, who is who among them, GPUs. The one place that starts processes and sends signals."""
