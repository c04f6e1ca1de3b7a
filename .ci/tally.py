"""Counts the results of a test run, and fails unless every test file on disk has run and nothing failed or skipped.

    python .ci/tally.py RESULTS TESTS STATUS

RESULTS is a folder of pytest's results as JUnit's XML, and STATUS its exit status.

A suite that is lost (a collection that silently finds nothing, a marker that leaves it out) would pass otherwise.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def tally(results: Path, tests: Path) -> tuple[int, int, list[str]]:
    """(passed, not passed, dotted names of the test files without a result)."""
    passed = not_passed = 0
    ran = set()
    for case in (case for file in results.glob("*.xml") for case in ElementTree.parse(file).iter("testcase")):
        ran.add(case.get("classname", ""))
        if any(case.find(kind) is not None for kind in ("failure", "error", "skipped")):
            not_passed += 1
        else:
            passed += 1
    files = (".".join(file.with_suffix("").parts) for file in sorted(tests.rglob("test_*.py")))
    lost = [name for name in files if not any(f"{suite}.".startswith(f"{name}.") for suite in ran)]
    return passed, not_passed, lost


def main() -> int:
    """Print the tally; the exit status is 0 when all is well."""
    results, tests, status = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if not any(results.glob("*.xml")):
        print(f"pytest ended with status {status} and left no results")
        return 1
    passed, not_passed, lost = tally(results, tests)
    for name in lost:
        print(f"did not run: {name}")
    if status and not not_passed:
        print(f"pytest ended with status {status}")
    print(f"{passed} passed, {not_passed + len(lost)} failed")
    return 1 if status or not_passed or lost or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
