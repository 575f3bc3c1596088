"""The hand-written C floors of src/: what the work costs with no safety and no features."""
from ..build import program


def start(name, *extra):
    def argv(port, backends):
        ports = [",".join(map(str, backends))] if backends else []
        return [program(name), str(port)] + ports + list(extra)
    return argv
