"""Enginewright: a target goes in, a verified compiled engine comes out."""
