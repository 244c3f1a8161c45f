"""What placing tasks saves: groups of workers that are played, on storage that is slow, and a real cluster."""
