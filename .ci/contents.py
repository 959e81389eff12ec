"""Check what is in wheels: the package, what it reads, and nothing else."""

import re
import sys
import zipfile

ALLOWED = re.compile(
    r"cody/(.*\.py|py\.typed|(models|baselines)/shipped/.*\.(json|safetensors)|data/shipped/.*\.(npz|md)"
    r"|paper/.*\.(csv|mplstyle)|web/.*\.(css|js)|engine/(.*\.[ch]|follow\..*\.so))|cody_explain-[^/]*\.dist-info/.*"
)

for wheel in sys.argv[1:]:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    surplus = [name for name in names if not ALLOWED.fullmatch(name)]
    if surplus:
        sys.exit(f"{wheel} has files that the package does not need: {', '.join(surplus)}")
    if any(name.endswith(".so") for name in names) == wheel.endswith("-none-any.whl"):
        sys.exit(f"{wheel}: a wheel for one kind of machine has the compiled library, one for any has not")
    print(f"{wheel}: {len(names)} files, all of them needed")
