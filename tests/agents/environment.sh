# environment DIRECTORY PACKAGES: a virtual environment with these.
environment() {
    [ -x "$1/bin/python" ] || python3 -m venv "$1"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}
