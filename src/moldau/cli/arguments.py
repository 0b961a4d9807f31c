"""What every command hands its parser to."""

from __future__ import annotations

import argparse

Subparsers = argparse._SubParsersAction  # argparse gives the type no public name
