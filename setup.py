"""Compiles the hot modules with Cython where that is possible; without, the package works all the same.

A module is compiled if a ``.pxd`` file with its C types stands beside it. These modules share their types, so either
all of them are compiled or none. A ``.pxd`` file without a module declares C functions. All other metadata stands in
pyproject.toml.
"""

import os
import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = [types for types in sorted(pathlib.Path("src").rglob("*.pxd")) if types.with_suffix(".py").exists()]
CPUS = os.cpu_count() or 1


def compiled():
    """Return the extension modules, marked optional, or nothing where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    keep_class_directives()
    modules = cythonize(
        [
            Extension(
                ".".join(types.with_suffix("").parts[1:]),
                [str(types.with_suffix(".py"))],
                extra_compile_args=["-O3", "-g0", "-fno-strict-aliasing"],
            )
            for types in SOURCES
        ],
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
        force=is_out_of_date(),
        nthreads=CPUS,
        quiet=True,
    )
    for module in modules:
        module.optional = True  # cythonize drops what was asked of the Extension
    return modules


def is_out_of_date():
    """Return whether C code is there that an earlier version of this file has made."""
    made = [each.stat().st_mtime for each in pathlib.Path("build").rglob("*.c")]
    return bool(made) and min(made) < pathlib.Path(__file__).stat().st_mtime


def keep_class_directives():
    """Make Cython apply ``no_gc`` and ``freelist`` in a ``.pxd`` file to the class in the ``.py`` file.

    By itself it replaces the directives of the declaration by those of the definition, which has none.
    """
    from Cython.Compiler.Nodes import CClassDefNode

    analyse = CClassDefNode.analyse_declarations

    def analyse_and_keep(node, env):
        declared = None if node.in_pxd else env.lookup_here(node.class_name)
        scope = getattr(declared.type, "scope", None) if declared is not None else None
        directives = dict(scope.directives) if scope is not None else {}
        kept = {name: directives[name] for name in ("no_gc", "freelist") if directives.get(name)}
        analyse(node, env)
        if kept:
            node.scope.directives = {**node.scope.directives, **kept}

    CClassDefNode.analyse_declarations = analyse_and_keep


class AllOrNothing(build_ext):
    """Builds all modules or, with a word about it, none: a part of them would not fit the rest."""

    def run(self):
        """Build, and take back what was built if something is missing."""
        self.forget()
        super().run()
        if not all(any(place.exists() for place in self.places(each)) for each in self.extensions):
            self.forget()
            sys.stderr.write(
                "OctopiA: the hot modules were not compiled (is there a C compiler?); "
                "they will run as plain Python, with the same answers, slowly.\n"
            )

    def forget(self):
        """Remove all compiled modules, those of an earlier build among them."""
        for extension in self.extensions:
            for place in self.places(extension):
                place.unlink(missing_ok=True)

    def places(self, extension):
        """Return where a module may be built: in the build directory, or beside its source."""
        name = self.get_ext_filename(extension.name)
        return [pathlib.Path(self.build_lib, name), pathlib.Path("src", name)]


setup(ext_modules=compiled(), cmdclass={"build_ext": AllOrNothing}, options={"build_ext": {"parallel": CPUS}})
