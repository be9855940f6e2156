"""GLUE's nine tasks by the file that the package holds, on small files of GLUE's exact format."""

import dataclasses
import tomllib
from pathlib import Path

import datasets
import pytest

from mtlib.config.task_file import GLUE_FILE, TASK_FILE, read_task_file
from mtlib.data.__main__ import config_of, main
from mtlib.data.load import read_data
from mtlib.tasks import Task, TaskFiles

PARSES = "( a )\t( b )\t(ROOT a)\t(ROOT b)"
MNLI_COLUMNS = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    "\tsentence1\tsentence2"
)
STS_COLUMNS = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
QQP_COLUMNS = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
MRPC_COLUMNS = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
FILES: dict[str, list[str]] = {
    "CoLA/train.tsv": ["gj04\t1\t\tOur friends won't buy it.", "gj04\t0\t*\tThey drank the pub.", 'bc01\t1\t\t"Why?"'],
    "CoLA/dev.tsv": ["gj04\t1\t\tThe sailors rode the breeze.", "l-93\t0\t*\tThe bird sings the."],
    "SST-2/train.tsv": ["sentence\tlabel", 'hide " new secretions \t0', "contains no wit \t0", "fine \t1"],
    "SST-2/dev.tsv": ["sentence\tlabel", "it 's a charming journey . \t1", "bleak \t0"],
    "MRPC/train.tsv": [MRPC_COLUMNS, '1\t702876\t702977\tHe said , " No .\tHe refused .', "0\t2\t3\tOne .\tTwo ."],
    "MRPC/dev.tsv": [MRPC_COLUMNS, "1\t1355540\t1355592\tHe said so .\tHe says so ."],
    "STS-B/train.tsv": [
        f"{STS_COLUMNS}\tscore",
        "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane.\tAn air plane.\t5.000",
        "1\tmain-captions\tMSRvid\t2012test\t0004\tnone\tnone\tA man.\tA flute.\t3.80",
    ],
    "STS-B/dev.tsv": [f"{STS_COLUMNS}\tscore", "0\tm\tf\t2012test\t0000\tnone\tnone\tA hat.\tA man.\t0.500"],
    "QQP/train.tsv": [
        QQP_COLUMNS,
        "133273\t213221\t213222\tHow is life?\tWhat is life?\t1",
        "402555\t536040\t536041\tHow do I",  # a line of GLUE's that is broken in two
        "start?\tHow can I start?\t0",
        "360472\t364011\t490273\tWhat causes stool color to change?\tWhy?\t0",
    ],
    "QQP/dev.tsv": [QQP_COLUMNS, "201359\t303345\t303346\tWhy?\tHow?\t0"],
    "MNLI/train.tsv": [
        f"{MNLI_COLUMNS}\tlabel1\tgold_label",
        f"0\t31193\t31193n\tgovernment\t{PARSES}\tCream skimming.\tTwo dimensions.\tneutral\tneutral",
        f"1\t101457\t101457e\ttelephone\t{PARSES}\tYou lose.\tYou lose things.\tentailment\tentailment",
    ],
    **{
        f"MNLI/dev_{name}.tsv": [
            f"{MNLI_COLUMNS}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
            f"0\t63735\t63735n\tslate\t{PARSES}\tNew in {name}.\tOld." + "\tneutral" * 5 + f"\t{gold}",
        ]
        for name, gold in (("mismatched", "contradiction"), ("matched", "neutral"))
    },
    "QNLI/train.tsv": [
        "index\tquestion\tsentence\tlabel",
        '0\tWhen?\tIn "1948.\tentailment',
        "1\tWho?\tYes.\tnot_entailment",
    ],
    "QNLI/dev.tsv": ["index\tquestion\tsentence\tlabel", "0\tWhat?\tAs of now.\tentailment"],
    "RTE/train.tsv": ["index\tsentence1\tsentence2\tlabel", "0\tNone found.\tSome found.\tnot_entailment"],
    "RTE/dev.tsv": ["index\tsentence1\tsentence2\tlabel", "0\tDana died.\tDana is dead.\tentailment"],
    "WNLI/train.tsv": ["index\tsentence1\tsentence2\tlabel", "0\tI stuck a pin.\tThe pin had a hole.\t1"],
    "WNLI/dev.tsv": ["index\tsentence1\tsentence2\tlabel", "0\tThe drain is clogged.\tIt has hair.\t0"],
}  # fmt: skip

LABELS = {  # in files, and under these names and numbers in the data set nyu-mll/glue
    "cola": {"0": "unacceptable", "1": "acceptable"},
    "sst2": {"0": "negative", "1": "positive"},
    "mrpc": {"0": "not_equivalent", "1": "equivalent"},
    "qqp": {"0": "not_duplicate", "1": "duplicate"},
    "mnli": {name: name for name in ("entailment", "neutral", "contradiction")},
    "qnli": {name: name for name in ("entailment", "not_entailment")},
    "rte": {name: name for name in ("entailment", "not_entailment")},
    "wnli": {"0": "not_entailment", "1": "entailment"},
}


@pytest.fixture
def glue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The folders of GLUE's download, and the file that the command prints."""
    for name, lines in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    assert main(["--glue"]) == 0
    (tmp_path / TASK_FILE).write_text(capsys.readouterr().out)
    return tmp_path


@pytest.fixture
def tasks(glue: Path) -> dict[str, Task]:
    return read_task_file(glue / TASK_FILE)


def test_the_file_is_installed_with_the_package() -> None:
    root = GLUE_FILE.parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    installed = project["tool"]["setuptools"]["package-data"]
    assert GLUE_FILE.name in installed[".".join(GLUE_FILE.parent.relative_to(root).parts)]


def test_every_file_is_read_as_glue_means_it(glue: Path, tasks: dict[str, Task]) -> None:
    tables = read_data(config_of(tasks), glue)
    found = {
        key: [(*texts, label) for *texts, label in zip(*table.texts, table.labels.tolist(), strict=True)]
        for key, table in tables.items()
    }
    assert found == {
        ("cola", "train"): [("Our friends won't buy it.", 1), ("They drank the pub.", 0), ('"Why?"', 1)],
        ("cola", "dev"): [("The sailors rode the breeze.", 1), ("The bird sings the.", 0)],
        ("sst2", "train"): [('hide " new secretions', 0), ("contains no wit", 0), ("fine", 1)],
        ("sst2", "dev"): [("it 's a charming journey .", 1), ("bleak", 0)],
        ("mrpc", "train"): [('He said , " No .', "He refused .", 1), ("One .", "Two .", 0)],
        ("mrpc", "dev"): [("He said so .", "He says so .", 1)],
        ("stsb", "train"): [("A plane.", "An air plane.", 5), ("A man.", "A flute.", pytest.approx(3.8))],
        ("stsb", "dev"): [("A hat.", "A man.", 0.5)],
        ("qqp", "train"): [("How is life?", "What is life?", 1), ("What causes stool color to change?", "Why?", 0)],
        ("qqp", "dev"): [("Why?", "How?", 0)],
        ("mnli", "train"): [("Cream skimming.", "Two dimensions.", 1), ("You lose.", "You lose things.", 0)],
        ("mnli", "dev"): [("New in matched.", "Old.", 1), ("New in mismatched.", "Old.", 2)],
        ("qnli", "train"): [("When?", 'In "1948.', 0), ("Who?", "Yes.", 1)],
        ("qnli", "dev"): [("What?", "As of now.", 0)],
        ("rte", "train"): [("None found.", "Some found.", 1)],
        ("rte", "dev"): [("Dana died.", "Dana is dead.", 0)],
        ("wnli", "train"): [("I stuck a pin.", "The pin had a hole.", 1)],
        ("wnli", "dev"): [("The drain is clogged.", "It has hair.", 0)],
    }
    assert tables["mnli", "dev"].ids == ["0", "1"]
    assert tables["qqp", "train"].skipped == (
        "QQP/train.tsv:3: question2 and is_duplicate are blank",
        "QQP/train.tsv:4: question1 and question2 and is_duplicate are blank",
    )


@pytest.mark.parametrize("name", LABELS)
def test_files_and_the_data_set_give_a_label_the_same_number(name: str, tmp_path: Path) -> None:
    task, cells = read_task_file(GLUE_FILE)[name], LABELS[name]
    rows = {column: [f"{column} {label}" for label in cells] for column in task.text_columns}
    for file in ("train.csv", "dev.csv"):
        datasets.Dataset.from_dict({**rows, task.label_column: list(cells)}).to_csv(tmp_path / file)
    data = datasets.Dataset.from_dict({**rows, task.label_column: list(range(len(cells)))})
    names = datasets.ClassLabel(names=list(cells.values()))
    named = data.cast_column(task.label_column, names)
    datasets.DatasetDict(train=named, dev=named).save_to_disk(tmp_path / "saved")
    for train, dev in (("train.csv", "dev.csv"), ("hf://saved", "hf://saved:dev")):
        own = dataclasses.replace(task, files=TaskFiles(train=train, dev=dev))
        table = read_data(config_of({name: own}), tmp_path)[name, "train"]
        assert table.labels.tolist() == list(range(len(cells))), train
