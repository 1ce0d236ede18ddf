"""How well the database serves the queue: independent readings, each in words with its next step.

One that fails says why and takes no other with it.
"""
