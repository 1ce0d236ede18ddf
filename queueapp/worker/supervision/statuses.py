"""The exit statuses of ``flask work``; numbers above 64 are those of sysexits.h."""

STOPPED = 0
DIED = 1
# The database did not answer at the start, or takes no writes: later it may.
UNAVAILABLE = 69
REPLACE = 75
# A setting or the schema is wrong.
UNUSABLE = 78
# Trying again cannot help: wrong usage, an application that cannot be loaded, and the last one.
HOPELESS = (2, 3, UNUSABLE)
