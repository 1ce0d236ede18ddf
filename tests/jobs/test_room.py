"""What a count of the depth reads: as much as its bound, and nothing but the index of the claim."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from queueapp.jobs import room
from tests.jobs.explain import Prepared
from tests.jobs.filling import FINISHED, analyze, fill

pytestmark = pytest.mark.postgresql("plans")


@pytest.mark.parametrize("analyzed", [True, False])
def test_a_count_reads_no_more_than_its_bound(worker: sa.Connection, analyzed: bool) -> None:
    fill(worker, 20_000, **FINISHED)
    fill(worker, 20_000)
    if analyzed:
        analyze(worker)
    # The worker's connection plans as the count's own settings have it.
    with Prepared(worker, "measure", room._MEASURE) as measure:
        small, large = measure.run(bound=101), measure.run(bound=10_001)

    for plan, bound in ((small, 101), (large, 10_001)):
        assert plan.indexes == {"ix_jobs_claim"}
        assert plan.scans("Seq Scan") == []
        assert plan.sorted_rows == 0
        # An entry each, and the look whether its page is all visible.
        assert plan.reading <= 1.2 * bound + 20
