#!/usr/bin/env python3
"""Place orders, and one that is taken back after its job was written.

python -m examples.orders.place ITEM…
"""

from __future__ import annotations

import argparse

from sqlalchemy.orm import Session

from examples.orders.jobs import Base, place_order
from queueapp import create_app
from queueapp.extensions import db


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("items", nargs="+", help="what is bought")
    items = options.parse_args().items
    with create_app().app_context(), Session(db.engine) as session:
        Base.metadata.create_all(db.engine)
        for item in items:
            job_id = place_order(session, item)
            session.commit()
            print(f"{item}: ordered, job {job_id} mails the invoice")
        job_id = place_order(session, "a mistake")
        session.rollback()
        print(f"a mistake: taken back, and with it job {job_id}")


if __name__ == "__main__":
    main()
