"""One small program a queue, all with the same commands; ``harness`` has them.

They run with the peers' packages, which the application's environment does not have.
"""
