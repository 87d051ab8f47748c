"""`manage.py demo` from an empty directory: the whole system, with real pilots on a local computing element."""

import re
import subprocess
from pathlib import Path

from tests.end_to_end.stack.running import environment, free_port, manage, processes_of
from tests.pace import within

#: The demonstration's own limit, and what starting and stopping may take on a busy machine.
ENDED_WITHIN_S = 300.0


def test_all_jobs_of_the_demonstration_end_as_they_should(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    done = subprocess.run(
        manage("demo", "--port", str(free_port()), "--data-dir", str(directory), "--exit"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=within(ENDED_WITHIN_S),
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 68 jobs ended as they should." in done.stdout
    assert re.search(
        r"^ *\d+  pinned +bob +LCG\.GRIDKA\.de +Done +\d+\.\d s  at LCG\.GRIDKA\.de", done.stdout, re.MULTILINE
    )
    assert re.search(r"^ *\d+  fails +alice +\S+ +Failed ", done.stdout, re.MULTILINE)
    assert re.search(r"^ *\d+  killed +charlie +\S+ +Killed .* begun$", done.stdout, re.MULTILINE)
    assert re.search(r"sort\.sh; sorted-down\.txt, sorted-up\.txt$", done.stdout, re.MULTILINE)
    assert re.search(r"^Administration  http://127\.0\.0\.1:\d+/admin/", done.stdout, re.MULTILINE)
    assert re.search(r"^    alice     [A-Za-z0-9_-]{16}  lhcb_user, lhcb_calib$", done.stdout, re.MULTILINE)
    assert processes_of(directory) == []
