"""Takes a training checkpoint away by tinker-cookbook's own download: download.py URL TINKER_PATH DIRECTORY

It has the weights exported, encrypted to a key of its own, decrypts them and deletes the export. Prints the names of the
files. Needs tinker-cookbook and its pyrage.
"""

import json
import os
import sys

url, path, directory = sys.argv[1:]
os.environ |= {"TINKER_API_KEY": "tml-any", "TINKER_TELEMETRY": "0"}

from tinker_cookbook import weights

weights.download(tinker_path=path, output_dir=directory, base_url=url)
print(json.dumps(sorted(os.listdir(directory))))
sys.stdout.flush()
os._exit(0)
