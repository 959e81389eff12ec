"""Check what is in a wheel: the package, what it reads, and nothing else."""

import re
import sys
import zipfile

ALLOWED = re.compile(
    r"cody/(.*\.py|py\.typed|(models|baselines)/shipped/.*\.(json|safetensors)|data/shipped/.*\.(npz|md)"
    r"|evaluate/paper/.*\.csv|(view|survey)/.*\.(css|js))|cody_explain-[^/]*\.dist-info/.*"
)

names = zipfile.ZipFile(sys.argv[1]).namelist()
surplus = [name for name in names if not ALLOWED.fullmatch(name)]
if surplus:
    sys.exit(f"{sys.argv[1]} has files that the package does not need: {', '.join(surplus)}")
print(f"{sys.argv[1]}: {len(names)} files, all of them needed")
