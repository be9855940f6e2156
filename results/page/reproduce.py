"""How a sweep can be run again: its commands, versions, data and configuration."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mtlib.data.tokenizer_facts import AUTO_TOKENIZER
from results.page.content import Block, Fold, Listing, TextTable
from results.records.trials import sweep_encoders, sweep_tokenizer
from results.sweep import Sweep

SHORT_HASH = 12


def reproduction_blocks(sweep: Sweep) -> Iterator[Block]:
    """Commands, versions, data and configuration, from `sweep.json`."""
    info = sweep.info
    commands = [str(info.get("command", "not recorded")), *(str(run["command"]) for run in info.get("resumed", []))]
    yield Listing(title="Commands", text="\n".join(commands))
    yield TextTable(
        title="Made with",
        columns=["what", "value"],
        rows=[[name, value] for name, value in provenance(info) if value],
        num_text_columns=2,
    )
    if (info.get("data") or {}).get("tables"):
        yield data_table(info)
    for title, name in (("Searched", "space"), ("Base configuration", "base")):
        yield Fold(title=title, blocks=[Listing(text=json.dumps(info.get(name), indent=2, ensure_ascii=False))])


def provenance(info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields what a sweep was run with, by name."""
    git, hardware = info.get("git") or {}, info.get("hardware") or {}
    changed = ", with changes that were not committed" if git.get("is_changed") else ""
    yield "Sweep", str(info.get("name", ""))
    yield "Started", str(info.get("created", ""))
    yield "Seed", str(info.get("seed", ""))
    encoders = [encoder_text(info, name, fingerprint) for name, fingerprint in sweep_encoders(info).items()]
    yield "Encoders" if len(encoders) > 1 else "Encoder", ", ".join(encoders)
    why = f" ({info['precision_reason']})" if info.get("precision_reason") else ""
    yield "Precision", str((info.get("base") or {}).get("precision", "")) + why
    yield "Revision", f"{git.get('revision', 'not recorded')}{changed}"
    yield "Python", str(info.get("python", ""))
    packages = info.get("packages") or {}
    yield "Packages", ", ".join(f"{name} {version}" for name, version in packages.items())
    yield "Machine", machine_text(hardware)
    yield "Platform", str(hardware.get("platform", ""))
    names = {"num_workers": "workers", "cpus_per_worker": "CPUs per worker", "gpus_per_worker": "GPUs per worker"}
    counts = [f"{title}: {info[name]}" for name, title in names.items() if info.get(name) is not None]
    yield "Per trial", ", ".join(counts)


def encoder_text(info: Mapping[str, Any], name: str, fingerprint: str) -> str:
    """An encoder with its fingerprint, and what made its tokenizer unless that was `AutoTokenizer`."""
    source = sweep_tokenizer(info, name).source
    return f"{name} ({fingerprint[:SHORT_HASH]}{'' if source == AUTO_TOKENIZER else f', tokens by its {source}'})"


def machine_text(hardware: Mapping[str, Any]) -> str:
    """Processor, CPUs, memory and GPUs, as far as they are recorded."""
    if not hardware:
        return ""
    gpus = ", ".join(map(str, hardware.get("gpus") or [])) or "no GPU"
    memory = hardware.get("memory_bytes")
    parts = [
        str(hardware.get("processor") or ""),
        f"{hardware['num_cpus']} CPUs" if hardware.get("num_cpus") else "",
        f"{memory / 2**30:.0f} GiB" if memory else "",
        gpus,
    ]
    return ", ".join(filter(None, parts))


def data_table(info: Mapping[str, Any]) -> TextTable:
    """Returns the tables of the data with their rows and fingerprints."""
    data = info.get("data") or {}
    rows, fingerprints = data.get("rows") or {}, data.get("tables") or {}
    return TextTable(
        title="Data",
        columns=["table", "fingerprint (SHA-256)", "rows"],
        rows=[
            [name, str(fingerprint)[:SHORT_HASH], f"{rows[name]:,}" if name in rows else ""]
            for name, fingerprint in fingerprints.items()
        ],
        caption=f"Folder: {data.get('folder', 'not recorded')}",
        num_text_columns=2,
    )
