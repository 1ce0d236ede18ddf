"""What gunicorn and ``flask`` load: the application."""

import gc
import os
import sys

# What is loaded stays: looking through it again and again is a fifth of the time to start.
gc.disable()

from queueapp import create_app  # noqa: E402
from queueapp.errors import SettingError  # noqa: E402
from queueapp.misspelt import misspelt  # noqa: E402
from queueapp.worker.supervision.statuses import UNUSABLE  # noqa: E402

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
gc.freeze()
gc.enable()
