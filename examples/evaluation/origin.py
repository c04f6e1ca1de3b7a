"""Where figures come from: the line that stands in every page of results."""

from __future__ import annotations


def made_by(study: str, *, quick: bool, seeds: str) -> str:
    """The command and the seeds that a page can be repeated with.

    Args:
        study: name of the study's folder.
        quick: whether it is the small one.
        seeds: which seeds there are, such as ``seeds 0 to 99 of every row``; or why there is none.
    """
    return f"Made by `./dev evaluate --only {study}{' --quick' if quick else ''}`; {seeds}."
