"""What people say about samples, and what they see of them."""
