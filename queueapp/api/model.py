"""What every model of the API begins from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Made ready when it is first used.

    Most only describe answers in the documentation: making all of them ready would be a tenth of
    the time that each process takes to start.
    """

    model_config = ConfigDict(defer_build=True)
