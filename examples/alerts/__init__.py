"""What to do when a guarantee does not hold: a hook that posts it to a chat."""
