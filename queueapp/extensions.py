"""The unbound Flask extensions; ``create_app`` binds them."""

from __future__ import annotations

from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy

from queueapp.base import Base

db = SQLAlchemy(metadata=Base.metadata)
migrate = Migrate(directory="migrations")
