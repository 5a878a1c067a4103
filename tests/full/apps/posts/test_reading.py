"""Reading a post by rules: the right sign in two languages, the same answer every time, and an answer to anything."""

import json
import subprocess

from duly.apps.posts.rules import fallback_reading
from tests.fast.apps.posts.test_reading import ENGLISH_PLEASANT, SWEDISH_UNPLEASANT
from tests.support.processes import PYTHON, plain_environment


def test_the_same_caption_reads_the_same_in_every_process() -> None:
    captions = [*ENGLISH_PLEASANT, *SWEDISH_UNPLEASANT, "\N{GRINNING FACE}", ""]
    code = (
        "import json, sys; from duly.apps.posts.rules import fallback_reading; "
        "print(json.dumps([fallback_reading(caption).document() for caption in json.loads(sys.argv[1])]))"
    )

    def read(seed: str) -> list[dict[str, str]]:
        environment = plain_environment(PYTHONHASHSEED=seed)
        command = [*PYTHON, "-c", code, json.dumps(captions)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)

    assert read("0") == read("1") == [fallback_reading(caption).document() for caption in captions]


def test_importing_the_rules_does_not_load_the_engine() -> None:
    code = "import sys, duly.apps.posts.rules; print(*sys.modules)"
    loaded = subprocess.run([*PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"vaderSentiment", "PIL", "numpy"} & set(loaded)
