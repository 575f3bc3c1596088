"""Which C compiler Wireloom takes on this machine, as what it makes says of itself."""
import glob
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def compiled_by(wireloom):
    """The compiler's name and version; "none" where programs are interpreted."""
    with tempfile.TemporaryDirectory() as scratch:
        app = os.path.join(ROOT, "apps/static_web.loom")
        env = dict(os.environ, XDG_CACHE_HOME=scratch)
        subprocess.run([wireloom, "build", app, "-o", os.path.join(scratch, "app")], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for made in glob.glob(os.path.join(scratch, "wireloom", "*.so")):
            with open(made, "rb") as f:
                text = f.read()
            # The objects of the C library were compiled by gcc in any case.
            found = re.search(rb"[^\0]*clang version [^\0]*", text) or re.search(rb"GCC: [^\0]*", text)
            if found:
                return found.group().decode(errors="replace")
    return "none"


if __name__ == "__main__":
    print(compiled_by(os.environ.get("WIRELOOM", os.path.join(ROOT, "target/release/wireloom"))))
