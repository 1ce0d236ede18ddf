"""The product's version, as the changelog names it."""

VERSION = "0.1.0"
