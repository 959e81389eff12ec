"""Commands that Ctrl-C stops, also where the tests themselves ignore it: under nohup, in background jobs."""

import sys

LAUNCHER = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def interruptible(command):
    """The command, in the same process, with the default reaction to Ctrl-C: children inherit that it is ignored."""
    return [sys.executable, "-ISc", LAUNCHER, *command]
