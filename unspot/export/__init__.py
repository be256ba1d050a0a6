"""Erasers in the forms of other programs, each made from the elementary steps of their maps."""
