"""Print the oldest version of every dependency that pyproject.toml allows, as constraints for pip.

torch and what is built for it stay as they are in constraints.txt, because other versions are gigabytes. With `--all`,
which continuous integration uses, they are the oldest, too.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
AS_THEY_ARE = set() if "--all" in sys.argv else {"torch", "torch-geometric"}
TOOLS = {"dev", "docs"}  # what the tests are run with is not what users have

project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = [needs for name, needs in project["optional-dependencies"].items() if name not in TOOLS]
for need in [*project["dependencies"], *(need for needs in extras for need in needs)]:
    name, _, oldest = need.partition(">=")
    if oldest and name not in AS_THEY_ARE:
        print(f"{name}=={oldest}")
for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
    if re.split("==", line)[0] in AS_THEY_ARE:
        print(line)
