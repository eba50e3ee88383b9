"""The command, as `python -m fulgurite`: the program that this package installed, else the first on the PATH."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def program() -> str:
    """Return where the command is."""
    name = f"fulgurite{sysconfig.get_config_var('EXE') or ''}"
    user_scripts = sysconfig.get_path("scripts", f"{os.name}_user")
    places = [Path(sysconfig.get_path("scripts")), Path(user_scripts)]
    installed = next((str(place / name) for place in places if (place / name).is_file()), None)
    found = installed or shutil.which("fulgurite")
    if found is None:
        sys.exit("error: the command fulgurite is not installed; help: pip install --force-reinstall fulgurite")
    return found


if __name__ == "__main__":
    command = program()
    os.execv(command, [command, *sys.argv[1:]])
