"""Agents that write: a language model with tools, or a guest, over one workspace each.

Nothing here can reach the judge. A submission is data (kernel files and a change of the plan); what
becomes of it is decided elsewhere, like of every other candidate.
"""
