"""The judge: builds a candidate folder, checks it, times it. It does not know who made it."""
