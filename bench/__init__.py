"""Measures this product beside its peers. ``bench/run --help`` says how; nothing imports it."""
