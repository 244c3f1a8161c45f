"""What to do when a guarantee does not hold: a hook that tells a chat of it."""
