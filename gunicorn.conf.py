"""How gunicorn serves the application, whatever its command line says beside: see web_worker."""

from typing import Any

worker_class = "web_worker.WebWorker"
logger_class = "web_worker.WebLogger"
# No query and no referrer: both may hold what a log should not. The id leads to our own lines.
access_log_format = '%(h)s "%(m)s %(U)s %(H)s" %(s)s %(B)s %(M)sms %({x-request-id}o)s'
# Room for the filters of a list.
limit_request_line = 8190


def post_worker_init(worker: Any) -> None:
    """Make ready what the first page needs, in the process that serves it."""
    # Not above: the master must not load the application.
    from queueapp.console import warming

    warming.begin(worker.wsgi)
