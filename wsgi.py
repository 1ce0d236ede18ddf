"""What gunicorn and ``flask`` load: the application."""

import os
import sys

from queueapp import create_app
from queueapp.errors import SettingError
from queueapp.misspelt import misspelt
from queueapp.worker.supervision.statuses import UNUSABLE

# gunicorn takes this exit status of a worker for "cannot boot" and stops instead of trying again.
CANNOT_BOOT = 3

for wrong in misspelt(os.environ):
    print(f"queueapp: {wrong}", file=sys.stderr)  # noqa: T201
try:
    app = create_app()
except SettingError as error:
    # One line that names the setting; a traceback would only hide it.
    print(f"queueapp: {error}", file=sys.stderr)  # noqa: T201
    sys.exit(CANNOT_BOOT if "gunicorn" in sys.modules else UNUSABLE)
