"""Agents at work in a run: their desks, their submissions, whose turn it is, what they spent."""
