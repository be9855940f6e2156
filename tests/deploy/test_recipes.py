"""The files in `deploy/` fit the schema of Ray's cluster launcher, this project's commands and its pinned packages."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml

from mtlib.runtime.command_line import parse_words
from sweeps.cli.arguments import build_parser
from tests.scripts import ROOT

DEPLOY = ROOT / "deploy"


def read_yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def texts_in(value: Any) -> list[str]:
    """Every string in plain data."""
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts_in(part)]
    if isinstance(value, list):
        return [text for part in value for text in texts_in(part)]
    return [value] if isinstance(value, str) else []


def commands_of(name: str) -> list[list[str]]:
    """The words of each call of `run_or_resume.sh` in a file, its comments included."""
    text = re.sub(r"\n#?\s{3,}", " ", (DEPLOY / name).read_text())
    found = re.findall(r"run_or_resume\.sh (NAME [^'\n\[]+)", text)
    return [[word for word in shlex.split(words.replace("SPACE", "joint")) if word != "--"] for words in found]


def test_the_cluster_of_virtual_machines_fits_the_schema_of_rays_launcher() -> None:
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    cluster = read_yaml("cloud.yaml")
    jsonschema.validate(cluster, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**cluster, "head_nodes": 1}, schema)
    assert cluster["available_node_types"][cluster["head_node_type"]]["resources"] == {"CPU": 0}


@pytest.mark.parametrize(("name", "count"), [("cloud.yaml", 1), ("rayjob.yaml", 1), ("run_or_resume.sh", 1)])
def test_commands_have_flags_of_the_sweep(name: str, count: int) -> None:
    commands = commands_of(name)
    assert len(commands) == count
    for _name, _storage, *flags in commands:
        parse_words(build_parser(), ["--name", "NAME", "--storage", "s3://BUCKET/sweeps", *flags])


def test_the_job_of_kuberay_names_the_pinned_ray() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    spec = read_yaml("rayjob.yaml")["spec"]["rayClusterSpec"]
    assert spec["rayVersion"] == pinned["ray"]
    assert spec["authOptions"] == {"mode": "token"}


def test_no_recipe_opens_a_port_to_others_or_holds_a_secret() -> None:
    for path in DEPLOY.iterdir():
        text = path.read_text()
        assert "0.0.0.0" not in text, path
        assert not re.search(r"(AKIA|SECRET_ACCESS_KEY=\w)", text), path


@pytest.mark.parametrize("name", ["run_or_resume.sh", "slurm.sh"])
def test_scripts_are_executable_bash(name: str) -> None:
    path = DEPLOY / name
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_images_in_a_recipe_are_one() -> None:
    images = {text for text in texts_in(read_yaml("rayjob.yaml")) if "multitask-sweeps:" in text}
    assert images == {read_yaml("cloud.yaml")["docker"]["image"]}
