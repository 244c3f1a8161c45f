"""The chosen placement of tasks, and reports about it: members, moves to come, previews."""
