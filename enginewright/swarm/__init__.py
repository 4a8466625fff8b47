"""Who tries what next, and for how long: the loop from a target to a shipped engine."""
