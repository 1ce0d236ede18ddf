"""The queue on SQLite: the fallback for tests and a laptop, with one worker process.

The code that asks does so in PostgreSQL's statements and knows nothing of this. What differs in
spelling is translated (``translation``), what differs in more is replaced by Python that does the
same row by row, in one transaction (``replacements`` and the modules after the verbs). There are no
row locks, partitions, time budgets or notifications here, and the log needs no cursor: whoever
writes is alone, so the order of ids is the order of commits.
"""
