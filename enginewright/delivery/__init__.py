"""What leaves the factory: shipped binaries, reports, other engines beside ours."""
