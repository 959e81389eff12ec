"""Build the compiled form of the engine's loops, where there is a compiler; pyproject.toml has everything else.

Without a compiler the installation works all the same, with the numpy form. CODY_PURE=1 leaves the library out, which
makes a wheel for any machine.
"""

import os
import zlib
from pathlib import Path

from setuptools import Extension, setup

NAMES = ("follow.c", "layers.c", "products.c", "numbers.h", "products.h", "tile.h")
SOURCES = [f"src/cody/engine/{name}" for name in NAMES]

follow = Extension(
    "cody.engine.follow",
    sources=[name for name in SOURCES if name.endswith(".c")],
    depends=SOURCES,
    # The engine compares it with the sources beside it, so that an older library is never used: see library.py.
    define_macros=[("SOURCE", f"{zlib.crc32(b''.join(Path(name).read_bytes() for name in SOURCES))}LL")],
    # What is computed must not depend on the processor: no -march, no -ffast-math. -fno-trapping-math changes no
    # number; without it, comparisons keep loops from becoming vectors.
    extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden", "-ffp-contract=off", "-fno-trapping-math"],
    libraries=["m"] if os.name == "posix" else [],
    py_limited_api=True,  # it does not use Python at all: one library for all versions
    optional=True,
)

pure = os.environ.get("CODY_PURE") == "1"
setup(ext_modules=[] if pure else [follow], options={} if pure else {"bdist_wheel": {"py_limited_api": "cp311"}})
