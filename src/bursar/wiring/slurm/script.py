"""Converts an sbatch script to a job document, for the command line."""

from __future__ import annotations

from pathlib import Path

from bursar.model.errors import UserError


def import_sbatch(path: str) -> tuple[str, tuple[str, ...]]:
    """The job document of a script, and notes about lines that were not converted."""
    from bursar.config.sbatch.sbatch_import import import_sbatch as read_script

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(
            f"{path} cannot be read: {problem}.", fix="Pass an sbatch script.", code="no-job-file"
        ) from error
    imported = read_script(text, path)
    return imported.document_yaml, imported.notes
