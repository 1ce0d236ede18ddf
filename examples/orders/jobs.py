"""Orders, and the job that each brings about in the same transaction: what the README shows.

Producers, web processes and workers import it with ``QUEUE_HANDLERS=examples.orders.jobs``.
"""

from __future__ import annotations

from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from queueapp import JobContext, enqueue, handler


class Base(DeclarativeBase):
    """The tables of the shop; the queue has its own beside them."""


class Order(Base):
    """What somebody has bought."""

    __tablename__ = "example_orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


@handler("invoice.mail", max_attempts=8, timeout=60)
def mail_invoice(job: JobContext, invoice: int, copy_to: str | None = None) -> str:
    """Mail one invoice."""
    job.progress(50, "rendered")
    return f"sent invoice {invoice}"


def place_order(session: Session, item: str) -> int:
    """Write an order and its job; neither is there before the caller commits."""
    order = Order(item=item)
    session.add(order)
    session.flush()
    made = enqueue(session, "invoice.mail", {"invoice": order.id}, key=f"invoice-{order.id}")
    return made.id
