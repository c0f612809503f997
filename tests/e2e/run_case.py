#!/usr/bin/python3 -S
# SPDX-License-Identifier: Apache-2.0
"""Run a script of this directory, as if it had been started itself, but compile it and its modules only once.

    run_case.py SCRIPT CASE

Python compiles a script at each start, and modules, too, where PYTHONDONTWRITEBYTECODE is set. What it
compiles is kept in the build directory. The programs that a case starts do not learn of this.

No case needs other packages (-S).
"""

import os
import sys
from importlib.machinery import SourceFileLoader

sys.argv = sys.argv[1:]
sys.pycache_prefix = os.path.join(os.environ["HEAPPROFD_BUILD"], "tests", "e2e", "compiled")
sys.dont_write_bytecode = False
__file__ = sys.argv[0]
exec(SourceFileLoader(__name__, __file__).get_code(__name__))
