"""The state of the queue in numbers for a monitoring system: bounded reads, a fixed list of names.

What is told is read from the two tables, so whichever process is asked says the same; no process
counts for itself. What could not be read is left out, and a number says that it was.
"""

from __future__ import annotations

from queueapp.jobs.metrics.catalogue import FAMILIES, Family, Type
from queueapp.jobs.metrics.measuring import Measured, measure
from queueapp.jobs.metrics.samples import Sample, Scrape, samples

__all__ = ["FAMILIES", "Family", "Measured", "Sample", "Scrape", "Type", "measure", "samples"]
