"""Attacks on what the project promises: random cases, each made from one number, that try to break a promise.

A kind of attack is a module with a function `attack(seed)`. It makes a case from the seed, does something nasty, and
raises a `Finding` if a promise was broken. `make attack` runs all kinds for some minutes; `test_attack.py` runs a few
fixed cases of each.
"""
