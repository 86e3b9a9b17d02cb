"""Builds the matching kernel with Cython where that is possible; without a C compiler the package works all the same.

All other metadata stands in pyproject.toml.
"""

from setuptools import Extension, setup


def kernel():
    """Return the extension module, marked optional, or nothing where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = cythonize(
        [Extension("octopia.matching.kernel", ["src/octopia/matching/kernel.py"], extra_compile_args=["-O3", "-g0"])],
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
            "infer_types": False,
        },
        build_dir="build",
        quiet=True,
    )
    for module in modules:
        module.optional = True  # cythonize drops what was asked of the Extension
    return modules


setup(ext_modules=kernel())
