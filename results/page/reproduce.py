"""How a sweep can be run again: its commands, versions, data and configuration."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from results.analysis.sweep import Sweep
from results.page.content import Block, Listing, TextTable

SHORT_HASH = 12


def reproduction_blocks(sweep: Sweep) -> Iterator[Block]:
    """Commands, versions, data and configuration, from `sweep.json`."""
    info = sweep.info
    commands = [str(info.get("command", "not recorded")), *(str(own["command"]) for own in info.get("resumed", []))]
    yield Listing(title="Commands", text="\n".join(commands))
    yield TextTable(
        name="provenance",
        title="Made with",
        columns=["what", "value"],
        rows=[[name, value] for name, value in provenance(info) if value],
        num_text_columns=2,
    )
    yield data_table(info)
    yield Listing(title="Searched", text=as_json(info.get("space")), is_folded=True)
    yield Listing(title="Base configuration", text=as_json(info.get("base")), is_folded=True)


def provenance(info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a sweep was run with, by name."""
    git, hardware, encoder = info.get("git") or {}, info.get("hardware") or {}, info.get("encoder") or {}
    changed = ", with changes that were not committed" if git.get("is_changed") else ""
    yield "Sweep", str(info.get("name", ""))
    yield "Begun", str(info.get("created", ""))
    yield "Seed", str(info.get("seed", ""))
    yield "Encoder", f"{encoder.get('name', '')} ({str(encoder.get('fingerprint', ''))[:SHORT_HASH]})"
    yield "Precision", str((info.get("base") or {}).get("precision", "")) + reason(info)
    yield "Revision", f"{git.get('revision', 'not recorded')}{changed}"
    yield "Python", str(info.get("python", ""))
    packages = info.get("packages") or {}
    yield "Packages", ", ".join(f"{name} {version}" for name, version in packages.items())
    gpus = ", ".join(map(str, hardware.get("gpus") or [])) or "no GPU"
    memory = (hardware.get("memory_bytes") or 0) / 2**30
    yield "Machine", f"{hardware.get('processor', '')}, {hardware.get('num_cpus', '')} CPUs, {memory:.0f} GB, {gpus}"
    yield "Platform", str(hardware.get("platform", ""))
    resources = (info.get("num_workers"), info.get("cpus_per_worker"), info.get("gpus_per_worker"))
    yield "Per trial", "{} workers, {} CPUs and {} GPUs each".format(*resources)


def reason(info: Mapping[str, Any]) -> str:
    """Why the precision was chosen; empty if it was given."""
    return f" ({info['precision_reason']})" if info.get("precision_reason") else ""


def data_table(info: Mapping[str, Any]) -> TextTable:
    """The tables of the data with their rows and fingerprints."""
    data = info.get("data") or {}
    rows, fingerprints = data.get("rows") or {}, data.get("tables") or {}
    return TextTable(
        name="data",
        title="Data",
        columns=["table", "fingerprint (SHA-256)", "rows"],
        rows=[[name, str(own)[:SHORT_HASH], f"{rows.get(name, 0):,}"] for name, own in fingerprints.items()],
        caption=f"Folder: {data.get('folder', 'not recorded')}",
        num_text_columns=2,
    )


def as_json(value: Any) -> str:
    """Indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)
