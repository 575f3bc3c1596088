"""Writes a peer's configuration file into the scratch folder."""
import os

from .. import settings


def write(name, text):
    path = os.path.join(settings.SCRATCH, name)
    with open(path, "w") as f:
        f.write(text)
    return path
