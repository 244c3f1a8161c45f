"""A fold of one's own: what an aggregate begins with, and expressions that make the next one of it and a record."""
