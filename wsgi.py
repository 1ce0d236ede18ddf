"""What gunicorn and ``flask`` load: the application."""

from queueapp import create_app

app = create_app()
