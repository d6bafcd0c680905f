"""Imports every module of a package: an error in one that no walk uses shows as well. Usage: import_all.py PACKAGE"""

import importlib
import pkgutil
import sys

package = importlib.import_module(sys.argv[1])


def refuse(name: str) -> None:
    raise ImportError(name)


for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=refuse):
    importlib.import_module(module.name)
