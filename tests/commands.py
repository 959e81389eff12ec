"""Run a command in this process."""

from click.testing import CliRunner

from cody import cli
from cody.errors import CallError, CodyError


def run(*words, code=0):
    """Standard output of a command that must end with the given exit code; for an error, its message."""
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    if isinstance(result.exception, CodyError):
        assert code == (2 if isinstance(result.exception, CallError) else 1), result.exception
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output
