"""Which way of placing tasks was chosen, and what is told of it: members, moves to come, previews."""
