"""Builds the C programs in src/ into the scratch folder, when they are older than their sources."""
import os
import subprocess

from . import settings

LIBRARIES = {"floor_uring": ["-luring"]}


def build():
    """Compiles what is out of date. A program that does not build is reported; its peer then fails to start."""
    os.makedirs(settings.BIN, exist_ok=True)
    sources = sorted(os.listdir(settings.SRC))
    headers = [os.path.getmtime(os.path.join(settings.SRC, f)) for f in sources if f.endswith(".h")]
    for source in (f for f in sources if f.endswith(".c")):
        name = source[:-2]
        path, out = os.path.join(settings.SRC, source), os.path.join(settings.BIN, name)
        newest = max(headers + [os.path.getmtime(path)])
        if os.path.exists(out) and os.path.getmtime(out) >= newest:
            continue
        command = ["gcc", "-O2", "-march=native", "-Wall", "-Wextra", "-o", out, path] + LIBRARIES.get(name, [])
        if subprocess.call(command):
            print("warning: could not build", name)


def program(name):
    """Path of a built C program."""
    return os.path.join(settings.BIN, name)
