"""Files as 55 data sets and annotation tools publish them, made small by hand, with the rows that their authors mean.

Every text is invented. `docs/layouts.md` has a row for each layout.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from mtlib.config.task_file import GLUE_FILE
from mtlib.data.__main__ import config_of
from mtlib.data.load import data_tasks, find_row_sources, read_all
from mtlib.data.tables import Table
from mtlib.tasks import Task
from tests.one_line_error import one_line_error

Content = Any
"""Of a file: text, bytes, or rows that their library writes as the ending of the name says."""
TextsAndLabel = tuple[object, ...]
"""The texts of a row, then its label: the name of a class, a number, or a tuple of the names of several labels."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """Files as they are published, what stands in `tasks.toml`, and the rows or the error that these give."""

    name: str
    files: Mapping[str, Content]
    keys: Sequence[str]
    """The lines of the task; none: GLUE's own definitions, which `python -m mtlib.data --glue` prints."""
    task: str = "task"
    train: Sequence[TextsAndLabel] = ()
    dev: Sequence[TextsAndLabel] | None = None
    """None: a share of train is drawn, and `train` has the rows of both, in any order."""
    counted: Sequence[str] = ()
    """Parts of the lines about train rows that are not used."""
    message: str = ""
    """Part of the error."""


CLASSES = ('kind = "classes"', 'labels = ["negative", "neutral", "positive"]', 'texts = ["text"]', 'label = "label"')
BINARY = ('kind = "binary"', 'labels = ["no", "yes"]', 'texts = ["text"]', 'label = "label"')
PAIRS = ('kind = "binary"', 'labels = ["no", "yes"]', 'texts = ["first", "second"]', 'label = "label"')
SEVERAL = ('kind = "multilabel"', 'labels = ["joy", "fear", "anger"]', 'texts = ["text"]', 'label = "label"')
NUMBER = ('kind = "regression"', "range = [0, 5]", 'texts = ["first", "second"]', 'label = "score"')
"""The first keys of a task of each kind."""
ENTAILMENT = 'kind = "classes"', 'labels = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]'


def json_lines(*items: Mapping[str, object], end: str = "\n") -> str:
    """Returns an object a line."""
    return "".join(json.dumps(item, ensure_ascii=False) + end for item in items)


def cells(*rows: Sequence[object], mark: str = "\t", end: str = "\n") -> str:
    """Returns lines of cells with a mark between them, without quoting."""
    return "".join(mark.join(map(str, row)) + end for row in rows)


def split_files(form: str) -> tuple[str, str]:
    """Returns the keys of a file for train and one for dev."""
    return f'train = "train.{form}"', f'dev = "dev.{form}"'


OLID = (
    'id\ttweet\tsubtask_a\tsubtask_b\r\n1\t"a ""fine"" day"\tNOT\tNULL\r\n2\tplain\tOFF\tTIN\r\n3\tcafé\tOFF\tUNT\r\n'
)
OLID_KEYS = ('kind = "binary"', 'texts = ["tweet"]', 'id = "id"', "dev = 0.5", 'train = "olid.tsv"')
LABELLED_TABLES = [
    Published(
        name="GoEmotions",
        files={
            "train.tsv": '"""No"", he said"\t1,2\te1\n\\xEF\\xBB\\xBF Plain\t2\te2\nIt was old news\t0\te3\n',
            "dev.tsv": '"One ""quoted"" word"\t2,0\te4\nWhat joy\t0\te5\n',
        },
        keys=(*SEVERAL, 'id = "id"', 'columns = ["text", "label", "id"]', *split_files("tsv")),
        train=[
            ('"No", he said', ("fear", "anger")),
            ("\\xEF\\xBB\\xBF Plain", ("anger",)),
            ("It was old news", ("joy",)),
        ],
        dev=[('One "quoted" word', ("joy", "anger")), ("What joy", ("joy",))],
    ),
    Published(
        name="OLID, subtask a",
        files={"olid.tsv": OLID},
        keys=(*OLID_KEYS, 'labels = ["NOT", "OFF"]', 'label = "subtask_a"'),
        train=[('a "fine" day', "NOT"), ("plain", "OFF"), ("café", "OFF")],
    ),
    Published(
        name="OLID, subtask b, does not apply to every row",
        files={"olid.tsv": OLID},
        keys=(*OLID_KEYS, 'labels = ["UNT", "TIN"]', 'label = "subtask_b"', 'leave_out = ["NULL"]'),
        train=[("plain", "TIN"), ("café", "UNT")],
        counted=["1 row has subtask_b NULL, which leave_out names"],
    ),
    Published(
        name="OLID in Windows-1252",
        files={"olid.tsv": OLID.replace("plain", "it\u2019s").encode("cp1252")},
        keys=(*OLID_KEYS, 'labels = ["NOT", "OFF"]', 'label = "subtask_a"', 'encoding = "cp1252"'),
        train=[('a "fine" day', "NOT"), ("it\u2019s", "OFF"), ("café", "OFF")],
    ),
    Published(
        name="OLID in Windows-1252 without its encoding",
        files={"olid.tsv": OLID.replace("plain", "it\u2019s").encode("cp1252")},
        keys=(*OLID_KEYS, 'labels = ["NOT", "OFF"]', 'label = "subtask_a"'),
        message='olid.tsv:3: a file must be UTF-8 text, got byte 0x92; perhaps it is cp1252: encoding = "cp1252"',
    ),
    Published(
        name="BANKING77",
        files={
            "train.csv": 'text,category\r\nIs it here?,card_arrival\r\n"Where,\n is it?\n",lost_card\r\n',
            "dev.csv": "text,category\r\nI lost it,lost_card\r\n",
        },
        keys=(
            'kind = "binary"',
            'labels = ["card_arrival", "lost_card"]',
            'texts = ["text"]',
            'label = "category"',
            *split_files("csv"),
        ),
        train=[("Is it here?", "card_arrival"), ("Where,\n is it?", "lost_card")],
        dev=[("I lost it", "lost_card")],
    ),
    Published(
        name="AG News, whose labels begin at 1",
        files={
            "train.csv": '"3","A title","Text of the second\\team"\n"1","Far away","He said ""no"""\n',
            "dev.csv": '"2","A match","It ended"\n',
        },
        keys=(
            'kind = "classes"',
            'labels = {1 = "World", 2 = "Sports", 3 = "Business"}',
            'texts = ["title", "description"]',
            'label = "class"',
            'columns = ["class", "title", "description"]',
            *split_files("csv"),
        ),
        train=[("A title", "Text of the second\\team", "Business"), ("Far away", 'He said "no"', "World")],
        dev=[("A match", "It ended", "Sports")],
    ),
    Published(
        name="AG News without its mapping",
        files={"train.csv": '"3","Some text"\n"1","Other text"\n'},
        keys=(*CLASSES, 'columns = ["label", "text"]', 'train = "train.csv"', "dev = 0.5"),
        message='if labels begin at 1: labels = {1 = "negative", 2 = "neutral", 3 = "positive"}',
    ),
    Published(
        name="Yelp polarity",
        files={"train.csv": '1,"It was \\""fine\\"".\\nNo more"\n2,"Great, really"\n'},
        keys=(
            'kind = "binary"',
            'labels = {1 = "negative", 2 = "positive"}',
            'texts = ["text"]',
            'label = "class"',
            'columns = ["class", "text"]',
            'train = "train.csv"',
            "dev = 0.5",
        ),
        train=[('It was \\"fine\\".\\nNo more', "negative"), ("Great, really", "positive")],
    ),
    Published(
        name="MRPC, original",
        files={
            "msr_train.txt": "\ufeff"
            + cells((1, 10, 11, 'He said " no', "He denied"), (0, 12, 13, '"Yes, he said', 'It was " late"'))
        },
        keys=(
            *PAIRS,
            'columns = ["label", "id1", "id2", "first", "second"]',
            'format = "tsv"',
            'train = "msr_train.txt"',
            "dev = 0.5",
        ),
        train=[('He said " no', "He denied", "yes"), ('"Yes, he said', 'It was " late"', "no")],
    ),
    Published(
        name="MRPC in Windows-1252",
        files={
            "msr.txt": cells(
                ("Quality", "#1 String", "#2 String"), (1, "It\u2019s late", "Late"), (0, "Early", "It\u2019s not")
            ).encode("cp1252")
        },
        keys=(
            'kind = "binary"',
            'labels = ["no", "yes"]',
            'texts = ["#1 String", "#2 String"]',
            'label = "Quality"',
            'format = "tsv"',
            'encoding = "cp1252"',
            'train = "msr.txt"',
            "dev = 0.5",
        ),
        train=[("It\u2019s late", "Late", "yes"), ("Early", "It\u2019s not", "no")],
    ),
    Published(
        name="MRPC, split",
        files={
            "train.tsv": cells(("label", "first", "second"), (1, '"a', 'b"'), (0, 'c " d', "e"), end="\r\n"),
            "dev.tsv": cells(("label", "first", "second"), (0, '"f"', "g"), end="\r\n"),
        },
        keys=(*PAIRS, *split_files("tsv")),
        train=[('"a', 'b"', "yes"), ('c " d', "e", "no")],
        dev=[('"f"', "g", "no")],
    ),
    Published(
        name="STS-B as CSV, lines of 7 and 9 cells",
        files={
            "sts.csv": cells(
                ("main", "MSRvid", "2012", "0001", "5.000", "A plane lands.", 'A "plane lands.'),
                ("main", "forum", "2013", "0002", "0.800", '"Two', "Dogs.", "http://a", "http://b"),
            )
        },
        keys=(
            *NUMBER,
            'columns = ["genre", "file", "year", "number", "score", "first", "second", "source1", "source2"]',
            'format = "tsv"',
            'train = "sts.csv"',
            "dev = 0.5",
        ),
        train=[("A plane lands.", 'A "plane lands.', 5.0), ('"Two', "Dogs.", 0.8)],
    ),
    Published(
        name="STS12",
        files={"sts.tsv": cells(("4.400", "A man eats.", '"Man" eats'), ("0.0", "Rain.", "A dog."))},
        keys=(*NUMBER, 'columns = ["score", "first", "second"]', 'train = "sts.tsv"', "dev = 0.5"),
        train=[("A man eats.", '"Man" eats', 4.4), ("Rain.", "A dog.", 0.0)],
    ),
    Published(
        name="ATIS as CSV",
        files={"train.csv": "Tags,Patterns\nflight, from here to there\nfare, what does it cost\n"},
        keys=(
            'kind = "binary"',
            'labels = ["fare", "flight"]',
            'texts = ["Patterns"]',
            'label = "Tags"',
            'train = "train.csv"',
            "dev = 0.5",
        ),
        train=[("from here to there", "flight"), ("what does it cost", "fare")],
    ),
    Published(
        name="RTE as TSV by pandas",
        files={
            "train.tsv": pd.DataFrame(
                {"first": ['He said "no".', "Plain"], "second": ["No", 'A "word"'], "label": ["yes", "no"]}
            ),
            "dev.tsv": pd.DataFrame({"first": ["Plain"], "second": ["Nothing quoted"], "label": ["no"]}),
        },
        keys=(*PAIRS, *split_files("tsv")),
        train=[('He said "no".', "No", "yes"), ("Plain", 'A "word"', "no")],
        dev=[("Plain", "Nothing quoted", "no")],
    ),
    Published(
        name="SemEval-2018 E-c",
        files={
            "2018-E-c-train.txt": cells(
                ("ID", "Tweet", "anger", "fear", "joy"),
                ("t1", "So happy\\n today", 0, 0, 1),
                ("t2", "Nothing to feel", 0, 0, 0),
                ("t3", "Go away", 1, 1, 0),
                end="\r\n",
            ),
            "2018-E-c-dev.txt": cells(("ID", "Tweet", "anger", "fear", "joy"), ("t4", "Help me", 0, 1, 0), end="\r\n"),
        },
        keys=(
            'kind = "multilabel"',
            'texts = ["Tweet"]',
            'label = ["anger", "fear", "joy"]',
            'format = "tsv"',
            'train = "2018-E-c-train.txt"',
            'dev = "2018-E-c-dev.txt"',
        ),
        train=[("So happy\\n today", ("joy",)), ("Nothing to feel", ()), ("Go away", ("anger", "fear"))],
        dev=[("Help me", ("fear",))],
    ),
    Published(
        name="SST of SentEval, names without a suffix",
        files={
            "sentiment-train": cells(("a lovely film", 1), ('it says " nothing', 0)),
            "sentiment-dev": cells(("dull", 0)),
        },
        keys=(
            *BINARY,
            'columns = ["text", "label"]',
            'format = "tsv"',
            'train = "sentiment-train"',
            'dev = "sentiment-dev"',
        ),
        train=[("a lovely film", "yes"), ('it says " nothing', "no")],
        dev=[("dull", "no")],
    ),
    Published(
        name="UCI labelled sentences, two files as one",
        files={
            "amazon_cells_labelled.txt": cells(("It works.  ", 1), ("It broke.", 0)),
            "yelp_labelled.txt": cells(('Not "good" food.', 0)),
        },
        keys=(
            *BINARY,
            'columns = ["text", "label"]',
            'format = "tsv"',
            'train = ["amazon_cells_labelled.txt", "yelp_*.txt"]',
            "dev = 0.4",
        ),
        train=[("It works.", "yes"), ("It broke.", "no"), ('Not "good" food.', "no")],
    ),
    Published(
        name="SMS spam, broken lines",
        files={"SMSSpamCollection": 'ham\tSee "you\nspam\tWin now\nham\nham\tOk "\n'},
        keys=(
            'kind = "binary"',
            'labels = ["ham", "spam"]',
            'texts = ["text"]',
            'label = "label"',
            'columns = ["label", "text"]',
            'format = "tsv"',
            'train = "SMSSpamCollection"',
            "dev = 0.5",
        ),
        train=[('See "you', "ham"), ("Win now", "spam"), ('Ok "', "ham")],
        counted=["SMSSpamCollection:3: text is blank"],
    ),
    Published(
        name="Financial PhraseBank",
        files={
            "Sentences_AllAgree.txt": 'Profit rose , he said .@positive\r\n" Sales " in Jyväskylä fell .@negative\r\n'
            "It makes paper .@neutral\r\n"
        },
        keys=(
            *CLASSES,
            'columns = ["text", "label"]',
            'format = "tsv"',
            'separator = "@"',
            'train = "Sentences_AllAgree.txt"',
            "dev = 0.5",
        ),
        train=[
            ("Profit rose , he said .", "positive"),
            ('" Sales " in Jyväskylä fell .', "negative"),
            ("It makes paper .", "neutral"),
        ],
    ),
]

STSB_COLUMNS = (
    *("index", "genre", "filename", "year", "old_index"),
    *("source1", "source2", "sentence1", "sentence2", "score"),
)
GLUE = [
    Published(
        name="GLUE CoLA",
        task="cola",
        files={
            "CoLA/train.tsv": cells(("gj04", 1, "", "She sang."), ("gj04", 0, "*", 'Sang "she.')),
            "CoLA/dev.tsv": cells(("gj04", 1, "", "They sing.")),
        },
        keys=(),
        train=[("She sang.", "1"), ('Sang "she.', "0")],
        dev=[("They sing.", "1")],
    ),
    Published(
        name="GLUE RTE",
        task="rte",
        files={
            f"RTE/{split}.tsv": cells(
                ("index", "sentence1", "sentence2", "label"), (0, f'A "{split}" text.', "A text.", "not_entailment")
            )
            for split in ("train", "dev")
        },
        keys=(),
        train=[('A "train" text.', "A text.", "not_entailment")],
        dev=[('A "dev" text.', "A text.", "not_entailment")],
    ),
    Published(
        name="GLUE WNLI",
        task="wnli",
        files={
            f"WNLI/{split}.tsv": cells(
                ("index", "sentence1", "sentence2", "label"), (0, "The cup fell as it broke.", f"It is {split}.", 1)
            )
            for split in ("train", "dev")
        },
        keys=(),
        train=[("The cup fell as it broke.", "It is train.", "1")],
        dev=[("The cup fell as it broke.", "It is dev.", "1")],
    ),
    Published(
        name="GLUE SST-2",
        task="sst2",
        files={
            f"SST-2/{split}.tsv": cells(("sentence", "label"), (f'a "{split} film ', 1), ("dull ", 0))
            for split in ("train", "dev")
        },
        keys=(),
        train=[('a "train film', "1"), ("dull", "0")],
        dev=[('a "dev film', "1"), ("dull", "0")],
    ),
    Published(
        name="GLUE QNLI",
        task="qnli",
        files={
            f"QNLI/{split}.tsv": cells(
                ("index", "question", "sentence", "label"), (0, f"Who is {split}?", '"Ann" is. "', "entailment")
            )
            for split in ("train", "dev")
        },
        keys=(),
        train=[("Who is train?", '"Ann" is. "', "entailment")],
        dev=[("Who is dev?", '"Ann" is. "', "entailment")],
    ),
    Published(
        name="GLUE MRPC",
        task="mrpc",
        files={
            f"MRPC/{split}.tsv": "\ufeff"
            + cells(
                ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
                (1, 10, 11, f'"{split}', 'end"'),
                (0, 12, 13, '"', "b"),
            )
            for split in ("train", "dev")
        },
        keys=(),
        train=[('"train', 'end"', "1"), ('"', "b", "0")],
        dev=[('"dev', 'end"', "1"), ('"', "b", "0")],
    ),
    Published(
        name="GLUE STS-B",
        task="stsb",
        files={
            f"STS-B/{split}.tsv": cells(
                STSB_COLUMNS,
                (0, "main", "x", 2012, 1, "none", "none", f"A {split}.", 'The "train.', "2.5"),
            )
            for split in ("train", "dev")
        },
        keys=(),
        train=[("A train.", 'The "train.', 2.5)],
        dev=[("A dev.", 'The "train.', 2.5)],
    ),
]

SICK = cells(
    ("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score", "SemEval_set"),
    (1, "A dog runs", "A dog moves", "ENTAILMENT", 4.5, "TRAIN"),
    (2, "A cat sits", "No cat sits", "CONTRADICTION", 3.6, "TRIAL"),
    (3, "A man eats", "Rain falls", "NEUTRAL", 1.0, "TEST"),
    end="\r\n",
)
SICK_KEYS = (
    *ENTAILMENT,
    'texts = ["sentence_A", "sentence_B"]',
    'label = "entailment_label"',
    'id = "pair_ID"',
    'format = "tsv"',
)
SNLI = cells(
    ("gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "pairID"),
    ("neutral", '( A ( " man ) )', 'A "man.', "He runs.", "p1"),
    ("-", "( A )", "A boy.", "A girl.", "p2"),
    ("entailment", "( Two )", "Two dogs.", "Dogs.", "p3"),
)
MASSIVE = [
    {"id": "0", "locale": "en-US", "partition": "test", "scenario": "alarm", "intent": "alarm_set", "utt": "wake me"},
    {"id": "1", "locale": "en-US", "partition": "train", "scenario": "audio", "intent": "volume_up", "utt": "louder"},
    {"id": "2", "locale": "en-US", "partition": "train", "scenario": "alarm", "intent": "alarm_set", "utt": "at five"},
    {"id": "3", "locale": "en-US", "partition": "dev", "scenario": "audio", "intent": "volume_up", "utt": "volume up"},
]
MASSIVE_KEYS = ('kind = "binary"', 'labels = ["alarm_set", "volume_up"]', 'texts = ["utt"]', 'label = "intent"')
SOME_ROWS = [
    Published(
        name="SICK, 12 columns, one of which says the split",
        files={"SICK.txt": SICK},
        keys=(
            *SICK_KEYS,
            'train = {files = "SICK.txt", where = {SemEval_set = "TRAIN"}}',
            'dev = {files = "SICK.txt", where = {SemEval_set = "TRIAL"}}',
        ),
        train=[("A dog runs", "A dog moves", "ENTAILMENT")],
        dev=[("A cat sits", "No cat sits", "CONTRADICTION")],
        counted=["1 row: SemEval_set is TRIAL", "1 row: SemEval_set is TEST"],
    ),
    Published(
        name="SICK, with a share of all rows as dev",
        files={"SICK.txt": SICK},
        keys=(*SICK_KEYS, 'train = "SICK.txt"', "dev = 0.1"),
        message="column SemEval_set says which rows are for which split (TRAIN 1, TRIAL 1, TEST 1)",
    ),
    Published(
        name="SICK, 5 columns",
        files={
            "SICK_train.txt": cells(
                ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"),
                (1, "A dog runs", "A dog moves", 4.5, "ENTAILMENT"),
                (2, "A man eats", "Rain falls", 1, "NEUTRAL"),
            )
        },
        keys=(
            *ENTAILMENT,
            'texts = ["sentence_A", "sentence_B"]',
            'label = "entailment_judgment"',
            'format = "tsv"',
            'train = "SICK_train.txt"',
            "dev = 0.5",
        ),
        train=[("A dog runs", "A dog moves", "ENTAILMENT"), ("A man eats", "Rain falls", "NEUTRAL")],
    ),
    Published(
        name="SNLI, rows without an agreed label",
        files={"snli_train.txt": SNLI, "snli_dev.txt": SNLI.replace("Two dogs", "Three dogs")},
        keys=(
            'kind = "classes"',
            'labels = ["entailment", "neutral", "contradiction"]',
            'texts = ["sentence1", "sentence2"]',
            'label = "gold_label"',
            'id = "pairID"',
            'format = "tsv"',
            'leave_out = ["-"]',
            'train = "snli_train.txt"',
            'dev = "snli_dev.txt"',
        ),
        train=[('A "man.', "He runs.", "neutral"), ("Two dogs.", "Dogs.", "entailment")],
        dev=[('A "man.', "He runs.", "neutral"), ("Three dogs.", "Dogs.", "entailment")],
        counted=["1 row has gold_label -, which leave_out names"],
    ),
    Published(
        name="MASSIVE, whose column says the split",
        files={"en-US.jsonl": json_lines(*MASSIVE)},
        keys=(
            *MASSIVE_KEYS,
            'id = "id"',
            'train = {files = "en-US.jsonl", where = {partition = "train"}}',
            'dev = {files = "en-US.jsonl", where = {partition = ["dev"]}}',
        ),
        train=[("louder", "volume_up"), ("at five", "alarm_set")],
        dev=[("volume up", "volume_up")],
        counted=["1 row: partition is test", "1 row: partition is dev"],
    ),
    Published(
        name="MASSIVE, with a share of all rows as dev",
        files={"en-US.jsonl": json_lines(*MASSIVE)},
        keys=(*MASSIVE_KEYS, 'train = "en-US.jsonl"', "dev = 0.5"),
        message="column partition says which rows are for which split (train 2, test 1, dev 1)",
    ),
]

TWEETS = (*BINARY, 'format = "lines"')
TWEET_FILES = (
    'train = {files = "train_text.txt", labels = "train_labels.txt"}',
    'dev = {files = "val_text.txt", labels = "val_labels.txt"}',
)
TREC = "DESC:manner How did it end ?\nNUM:date When was it ?\nDESC:def What is a caf\xf0 ?\n".encode("latin-1")
TREC_KEYS = ('kind = "binary"', 'texts = ["text"]', 'format = "lines"', 'train = "TREC.train"', "dev = 0.4")
LABELS_ELSEWHERE = [
    Published(
        name="TweetEval emotion, a file of texts and one of labels",
        files={
            "train_text.txt": "So “good” \nNo way \nHm \n",
            "train_labels.txt": "2\n0\n1\n",
            "val_text.txt": "Fine \n",
            "val_labels.txt": "2\n",
        },
        keys=(*CLASSES, 'format = "lines"', *TWEET_FILES),
        train=[("So “good”", "positive"), ("No way", "negative"), ("Hm", "neutral")],
        dev=[("Fine", "positive")],
    ),
    Published(
        name="TweetEval irony, tabs within texts",
        files={
            "train_text.txt": "A\ttab here \nMore \n",
            "train_labels.txt": "1\n0\n",
            "val_text.txt": 'Sure "\n',
            "val_labels.txt": "1\n",
        },
        keys=(*TWEETS, *TWEET_FILES),
        train=[("A\ttab here", "yes"), ("More", "no")],
        dev=[('Sure "', "yes")],
    ),
    Published(
        name="TweetEval sentiment, escapes that stay as they are published",
        files={
            "train_text.txt": "It\\u2019s\\u002c well \nNo \n",
            "train_labels.txt": "2\n0\n",
            "val_text.txt": "Ok \n",
            "val_labels.txt": "1",
        },
        keys=(*CLASSES, 'format = "lines"', *TWEET_FILES),
        train=[("It\\u2019s\\u002c well", "positive"), ("No", "negative")],
        dev=[("Ok", "neutral")],
    ),
    Published(
        name="TweetEval with a label too few",
        files={
            "train_text.txt": "One \nTwo \n",
            "train_labels.txt": "1\n",
            "val_text.txt": "Ok \n",
            "val_labels.txt": "1\n",
        },
        keys=(*TWEETS, *TWEET_FILES),
        message="train_labels.txt must have a label for each line of train_text.txt, got no more after",
    ),
    Published(
        name="TREC, a coarse label before each text",
        files={"TREC.train": TREC},
        keys=(
            *TREC_KEYS,
            'labels = ["DESC", "NUM"]',
            'label = "coarse"',
            "pattern = '(?P<coarse>\\w+):(?P<fine>\\w+) (?P<text>.*)'",
            'encoding = "latin-1"',
        ),
        train=[("How did it end ?", "DESC"), ("When was it ?", "NUM"), ("What is a caf\xf0 ?", "DESC")],
    ),
    Published(
        name="TREC, fine labels",
        files={"TREC.train": TREC},
        keys=(
            'kind = "classes"',
            *TREC_KEYS[1:],
            'labels = ["DESC:manner", "DESC:def", "NUM:date"]',
            'label = "fine"',
            "pattern = '(?P<fine>\\S+) (?P<text>.*)'",
            'encoding = "latin-1"',
        ),
        train=[("How did it end ?", "DESC:manner"), ("When was it ?", "NUM:date"), ("What is a caf\xf0 ?", "DESC:def")],
    ),
    Published(
        name="SNIPS and ATIS, an intent a line beside the texts",
        files={
            "train/seq.in": "play a song\nwill it rain\n",
            "train/label": "PlayMusic\nGetWeather\n",
            "dev/seq.in": "play it\n",
            "dev/label": "PlayMusic\n",
        },
        keys=(
            'kind = "binary"',
            'labels = ["GetWeather", "PlayMusic"]',
            'texts = ["text"]',
            'label = "intent"',
            'format = "lines"',
            'train = {files = "train/seq.in", labels = "train/label"}',
            'dev = {files = "dev/seq.in", labels = "dev/label"}',
        ),
        train=[("play a song", "PlayMusic"), ("will it rain", "GetWeather")],
        dev=[("play it", "PlayMusic")],
    ),
    Published(
        name="MR, a file for each class, Latin-1",
        files={
            "rt-polarity.neg": "a caf\xe9 \x85 no more\n\tdull \n".encode("latin-1"),
            "rt-polarity.pos": 'a "lovely\n'.encode("latin-1"),
        },
        keys=(
            'kind = "binary"',
            'labels = ["neg", "pos"]',
            'texts = ["text"]',
            'label = "label"',
            'format = "lines"',
            'encoding = "latin-1"',
            'train = {files = {neg = "rt-polarity.neg", pos = "rt-polarity.pos"}}',
            "dev = 0.4",
        ),
        train=[("a caf\xe9 \x85 no more", "neg"), ("dull", "neg"), ('a "lovely', "pos")],
    ),
    Published(
        name="SUBJ, a file for each class",
        files={"subj.objective": "it opens in a town\n", "subj.subjective": b"a fianc\xe9 too far\n"},
        keys=(
            'kind = "binary"',
            'labels = ["objective", "subjective"]',
            'texts = ["text"]',
            'label = "label"',
            'format = "lines"',
            'encoding = "latin-1"',
            'train = {files = {objective = "subj.objective", subjective = ["subj.subjective"]}}',
            "dev = 0.5",
        ),
        train=[("it opens in a town", "objective"), ("a fiancé too far", "subjective")],
    ),
    Published(
        name="CR and MPQA, blank lines",
        files={"custrev.neg": "it broke\n\n \nnever again\n", "custrev.pos": "good\n"},
        keys=(
            'kind = "binary"',
            'labels = ["neg", "pos"]',
            'texts = ["text"]',
            'label = "label"',
            'format = "lines"',
            'train = {files = {neg = "custrev.neg", pos = "custrev.pos"}}',
            "dev = 0.4",
        ),
        train=[("it broke", "neg"), ("never again", "neg"), ("good", "pos")],
        counted=["custrev.neg:2: text is blank", "custrev.neg:3: text is blank"],
    ),
    Published(
        name="BBC news, a folder for each class and a file for each text",
        files={
            "bbc/sport/001.txt": b"A match\n\nIt cost \xa3 5.\n",
            "bbc/tech/001.txt": "A phone for \xa3 5\r\n",
            "bbc/tech/002.txt": "Another\n",
        },
        keys=(
            'kind = "binary"',
            'labels = ["sport", "tech"]',
            'texts = ["text"]',
            'label = "folder"',
            'format = "text"',
            'encoding = "latin-1"',
            'train = "bbc/*/*.txt"',
            "dev = 0.4",
        ),
        train=[("A match\n\nIt cost £ 5.", "sport"), ("A phone for £ 5", "tech"), ("Another", "tech")],
    ),
]

CLINC = {
    "oos_val": [["what is this", "oos"]],
    "val": [["what do i owe", "bill"]],
    "train": [["move my money", "transfer"], ["my bill please", "bill"]],
    "oos_train": [["hello you", "oos"]],
    "test": [["pay it", "bill"]],
}
CLASS_NAMES = datasets.ClassLabel(names=["entailment", "not_entailment"])
OTHER_ORDER = datasets.ClassLabel(names=["not_entailment", "entailment"])
RTE_KEYS = ('kind = "binary"', 'texts = ["first", "second"]', 'label = "label"', *split_files("parquet"))


def named_rows(names: datasets.ClassLabel, text: str) -> datasets.Dataset:
    """Returns two pairs whose labels are the numbers 0 and 1 of names."""
    features = datasets.Features(
        {"first": datasets.Value("string"), "second": datasets.Value("string"), "label": names}
    )
    rows = {"first": [text, f"{text} again"], "second": ["x", 'a "y"'], "label": [0, 1]}
    return datasets.Dataset.from_dict(rows, features=features)


JSON_AND_PARQUET = [
    Published(
        name="CLINC150, an object with an array for each split",
        files={"data_full.json": json.dumps(CLINC)},
        keys=(
            'kind = "binary"',
            'labels = ["bill", "transfer"]',
            'texts = ["text"]',
            'label = "intent"',
            'columns = ["text", "intent"]',
            *('train = "data_full.json"', 'dev = "data_full.json"'),
        ),
        train=[("move my money", "transfer"), ("my bill please", "bill")],
        dev=[("what do i owe", "bill")],
        counted=["1 row: oos_train is for no split"],
    ),
    Published(
        name="SciCite",
        files={
            "train.jsonl": json_lines(
                {"string": "As in [1], it is.", "label": "method", "sectionName": None, "cite": {"start": 6}},
                {"string": "Known.", "label": "background", "sectionName": "Intro", "cite": {}},
                end="\r\n",
            )
        },
        keys=(
            'kind = "binary"',
            'labels = ["background", "method"]',
            'texts = ["string"]',
            'label = "label"',
            'train = "train.jsonl"',
            "dev = 0.5",
        ),
        train=[("As in [1], it is.", "method"), ("Known.", "background")],
    ),
    Published(
        name="ChemProt, ACL-ARC and SciCite of SciBERT, JSON lines in .txt",
        files={
            "train.txt": json_lines(
                {"text": "<< A >> stops [[ B ]].", "label": "INHIBITOR", "metadata": []},
                {"text": "<< C >> is [[ D ]].", "label": "PART-OF", "metadata": []},
            )
        },
        keys=(
            'kind = "binary"',
            'labels = ["INHIBITOR", "PART-OF"]',
            'texts = ["text"]',
            'label = "label"',
            'format = "jsonl"',
            'train = "train.txt"',
            "dev = 0.5",
        ),
        train=[("<< A >> stops [[ B ]].", "INHIBITOR"), ("<< C >> is [[ D ]].", "PART-OF")],
    ),
    Published(
        name="SuperGLUE RTE and CB",
        files={
            "train.jsonl": json_lines(
                {"premise": "It rains.", "hypothesis": "It is wet.", "label": "entailment", "idx": 0},
                {"premise": "It snows.", "hypothesis": "It is hot.", "label": "contradiction", "idx": 1},
            )
        },
        keys=(
            'kind = "classes"',
            'labels = ["entailment", "contradiction", "neutral"]',
            'texts = ["premise", "hypothesis"]',
            'label = "label"',
            'id = "idx"',
            'train = "train.jsonl"',
            "dev = 0.5",
        ),
        train=[("It rains.", "It is wet.", "entailment"), ("It snows.", "It is hot.", "contradiction")],
    ),
    Published(
        name="SuperGLUE BoolQ and WiC, truth values in train and words in dev",
        files={
            "train.jsonl": json_lines(
                {"question": "is it so", "passage": "It is.", "label": True},
                {"question": "is it not", "passage": "It is.", "label": False},
            ),
            "dev.jsonl": json_lines({"question": "was it", "passage": "It was.", "label": "true"}),
        },
        keys=(
            'kind = "binary"',
            'labels = {false = "no", true = "yes"}',
            'texts = ["question", "passage"]',
            'label = "label"',
            *split_files("jsonl"),
        ),
        train=[("is it so", "It is.", "yes"), ("is it not", "It is.", "no")],
        dev=[("was it", "It was.", "yes")],
    ),
    Published(
        name="RTE as Parquet by datasets, with names of classes",
        files={"train.parquet": named_rows(CLASS_NAMES, "one"), "dev.parquet": named_rows(CLASS_NAMES, "two")},
        keys=(*RTE_KEYS, 'labels = ["entailment", "not_entailment"]'),
        train=[("one", "x", "entailment"), ("one again", 'a "y"', "not_entailment")],
        dev=[("two", "x", "entailment"), ("two again", 'a "y"', "not_entailment")],
    ),
    Published(
        name="RTE as Parquet whose files order their names differently, names mapped",
        files={"train.parquet": named_rows(CLASS_NAMES, "one"), "dev.parquet": named_rows(OTHER_ORDER, "two")},
        keys=(*RTE_KEYS, 'labels = {entailment = "yes", not_entailment = "no"}'),
        train=[("one", "x", "yes"), ("one again", 'a "y"', "no")],
        dev=[("two", "x", "no"), ("two again", 'a "y"', "yes")],
    ),
    Published(
        name="a folder of the hub whose files order their names differently, without labels",
        files={"rte/train.parquet": named_rows(CLASS_NAMES, "one"), "rte/dev.parquet": named_rows(OTHER_ORDER, "two")},
        keys=(*RTE_KEYS[:3], 'train = "hf://rte"', 'dev = "hf://rte:validation"'),
        message="labels of tasks.task must be given, as files name their numbers differently, got entailment, "
        "not_entailment in train.parquet and not_entailment, entailment in dev.parquet",
    ),
    Published(
        name="RTE as Parquet whose files order their names differently, without labels",
        files={"train.parquet": named_rows(CLASS_NAMES, "one"), "dev.parquet": named_rows(OTHER_ORDER, "two")},
        keys=RTE_KEYS,
        message="labels of tasks.task must be given, as files name their numbers differently, got entailment, "
        "not_entailment in train.parquet and not_entailment, entailment in dev.parquet",
    ),
]

PRODIGY = [
    {"text": "You fool", "_input_hash": 1, "_task_hash": 2, "label": "INSULT", "answer": "accept"},
    {"text": "Good day", "_input_hash": 3, "_task_hash": 4, "label": "INSULT", "answer": "reject"},
    {"text": "Hm", "_input_hash": 5, "_task_hash": 6, "label": "INSULT", "answer": "ignore"},
]
CHOICES = [
    {"text": "Oh no", "_input_hash": 1, "_task_hash": 2, "accept": ["fear", "anger"], "answer": "accept"},
    {"text": "Yes", "_input_hash": 3, "_task_hash": 4, "accept": ["joy"], "answer": "accept"},
    {"text": "Skip", "_input_hash": 5, "_task_hash": 6, "accept": [], "answer": "ignore"},
    {"text": "Broken", "_input_hash": 7, "_task_hash": 8, "accept": ["joy"], "answer": "reject"},
    {"text": "Nothing", "_input_hash": 9, "_task_hash": 10, "accept": [], "answer": "accept"},
]
CATS = [
    {"text": "Fine", "cats": {"positive": 1.0, "neutral": 0.0, "negative": 0.0}},
    {"text": "Bad", "cats": {"positive": 0.0, "neutral": 0.0, "negative": 1.0}},
]


def chosen(*names: str, cancelled: bool = False) -> dict[str, object]:
    """Returns an annotation of Label Studio that chooses names."""
    result = {"from_name": "sentiment", "to_name": "text", "type": "choices", "value": {"choices": list(names)}}
    return {"id": 1, "was_cancelled": cancelled, "result": [result]}


LABEL_STUDIO = [
    {"id": 1, "data": {"text": "Fine"}, "annotations": [chosen("positive")], "predictions": []},
    {"id": 2, "data": {"text": "Bad"}, "annotations": [chosen("negative"), chosen("negative"), chosen("neutral")]},
    {"id": 3, "data": {"text": "So so"}, "annotations": [chosen("neutral"), chosen("positive")]},
    {"id": 4, "data": {"text": "Skipped"}, "annotations": [chosen("neutral", cancelled=True)]},
    {"id": 5, "data": {"text": "New"}, "annotations": []},
]
STUDIO_KEYS = (*CLASSES[:-1], 'label = "sentiment"')
STUDIO_SEVERAL = (*SEVERAL[:-1], 'label = "emotions"')
CHOSEN = '{"choices":["joy","fear"]}'
ARGILLA = [
    {"id": "a", "fields": {"text": "Fine"}, "metadata": {}, "suggestions": {}, "status": "completed"},
    {"id": "b", "fields": {"text": "Bad"}, "metadata": {}, "suggestions": {}, "status": "completed"},
    {"id": "c", "fields": {"text": "New"}, "metadata": {}, "suggestions": {}, "status": "pending"},
]
ARGILLA_ANSWERS: list[list[tuple[str, str]]] = [
    [("positive", "submitted"), ("neutral", "discarded")],
    [("negative", "submitted"), ("neutral", "submitted"), ("negative", "submitted")],
    [],
]
NESTED = [
    {**record, "responses": {"tone": [{"value": value, "user_id": "u", "status": status} for value, status in own]}}
    for record, own in zip(ARGILLA, ARGILLA_ANSWERS, strict=True)
]
FLAT = [
    {
        "id": record["id"],
        "text": record["fields"]["text"],  # type: ignore[index]
        "tone.responses": [value for value, _ in own],
        "tone.responses.users": ["u" for _ in own],
        "tone.responses.status": [status for _, status in own],
        "tone.suggestion": None,
    }
    for record, own in zip(ARGILLA, ARGILLA_ANSWERS, strict=True)
]
TONE = (*CLASSES[:-1], 'label = "tone"', "dev = 0.5")
DOCCANO = ({"id": 1, "text": "Fine", "label": ["positive"]}, {"id": 2, "text": "Bad", "label": ["negative"]})
FINE_AND_BAD = [("Fine", "positive"), ("Bad", "negative")]
EXPORTS = [
    Published(
        name="Prodigy, one question to accept or reject",
        files={"train.jsonl": json_lines(*PRODIGY)},
        keys=(
            'kind = "binary"',
            'labels = {reject = "other", accept = "insult"}',
            'texts = ["text"]',
            'label = "answer"',
            'train = "train.jsonl"',
            "dev = 0.5",
        ),
        train=[("You fool", "insult"), ("Good day", "other")],
        counted=["1 row: no annotator has answered (Prodigy)"],
    ),
    Published(
        name="Prodigy, with the question as the label",
        files={"train.jsonl": json_lines(*PRODIGY)},
        keys=(
            'kind = "binary"',
            'labels = ["other", "INSULT"]',
            'texts = ["text"]',
            'label = "label"',
            'train = "train.jsonl"',
            "dev = 0.5",
        ),
        message='every row that was accepted has label INSULT, and others were rejected: label = "answer"',
    ),
    Published(
        name="Prodigy, choices",
        files={"train.jsonl": json_lines(*CHOICES)},
        keys=(*SEVERAL[:-1], 'label = "accept"', 'train = "train.jsonl"', "dev = 0.4"),
        train=[("Oh no", ("fear", "anger")), ("Yes", ("joy",)), ("Nothing", ())],
        counted=["1 row: no annotator has answered (Prodigy)", "1 row: the annotator rejected (Prodigy)"],
    ),
    Published(
        name="spaCy, JSON lines",
        files={"train.jsonl": json_lines(*CATS)},
        keys=(*CLASSES[:-1], 'label = "cats"', 'train = "train.jsonl"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="spaCy, an array, several categories",
        files={
            "train.json": json.dumps(
                [
                    {"text": "Help", "cats": {"joy": 0.0, "fear": 1.0, "anger": 1.0}},
                    {"text": "Hm", "cats": {"joy": 0.0, "fear": 0.0, "anger": 0.0}},
                ]
            )
        },
        keys=(*SEVERAL[:-1], 'label = "cats"', 'train = "train.json"', "dev = 0.5"),
        train=[("Help", ("fear", "anger")), ("Hm", ())],
    ),
    Published(
        name="doccano, JSON lines",
        files={"train.jsonl": json_lines(*DOCCANO)},
        keys=(*CLASSES, 'train = "train.jsonl"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="doccano, JSON",
        files={"train.json": json.dumps(DOCCANO)},
        keys=(*CLASSES, 'train = "train.json"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="doccano, CSV",
        files={"train.csv": "id,text,label\r\n1,Fine,positive\r\n2,Bad,negative\r\n"},
        keys=(*CLASSES, 'train = "train.csv"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="doccano, fastText",
        files={"train.txt": "__label__positive Fine\n__label__negative Bad\n"},
        keys=(*CLASSES, 'format = "fasttext"', 'train = "train.txt"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="fastText, several labels",
        files={"train.txt": "__label__joy __label__fear So it is\nNothing at all\n"},
        keys=(*SEVERAL, 'format = "fasttext"', 'train = "train.txt"', "dev = 0.5"),
        train=[("So it is", ("joy", "fear")), ("Nothing at all", ())],
    ),
    Published(
        name="Label Studio, JSON",
        files={"train.json": json.dumps(LABEL_STUDIO, indent=1)},
        keys=(*STUDIO_KEYS, 'train = "train.json"', "dev = 0.5"),
        train=FINE_AND_BAD,
        counted=[
            "1 row: annotators disagree equally often (Label Studio)",
            "2 rows: no annotator has answered sentiment (Label Studio)",
        ],
    ),
    Published(
        name="Label Studio, JSON_MIN",
        files={
            "train.json": json.dumps(
                [
                    {"text": "Oh", "id": 1, "emotions": {"choices": ["joy", "fear"]}, "annotation_id": 1},
                    {"text": "Hm", "id": 2, "emotions": "anger", "annotation_id": 2},
                ]
            )
        },
        keys=(*STUDIO_SEVERAL, 'train = "train.json"', "dev = 0.5"),
        train=[("Oh", ("joy", "fear")), ("Hm", ("anger",))],
    ),
    Published(
        name="Label Studio, CSV of one choice",
        files={"train.csv": "annotation_id,id,sentiment,text\n1,1,positive,Fine\n2,2,negative,Bad\n"},
        keys=(*STUDIO_KEYS, 'train = "train.csv"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="Label Studio, CSV of several choices",
        files={"train.csv": pd.DataFrame({"id": [1, 2], "emotions": [CHOSEN, "anger"], "text": ["Oh", "Hm"]})},
        keys=(*STUDIO_SEVERAL, 'train = "train.csv"', "dev = 0.5"),
        train=[("Oh", ("joy", "fear")), ("Hm", ("anger",))],
    ),
    Published(
        name="Label Studio, TSV",
        files={"train.tsv": '"id"\t"sentiment"\t"text"\n"1"\t"positive"\t"Fine"\n"2"\t"negative"\t"Bad"\n'},
        keys=(*STUDIO_KEYS, 'train = "train.tsv"', "dev = 0.5"),
        train=FINE_AND_BAD,
    ),
    Published(
        name="Argilla, records",
        files={"train.json": json.dumps(NESTED)},
        keys=(*TONE, 'train = "train.json"'),
        train=FINE_AND_BAD,
        counted=["1 row: no annotator has answered tone (Argilla)"],
    ),
    Published(
        name="Argilla, flat",
        files={"train.json": json.dumps(FLAT)},
        keys=(*TONE, 'train = "train.json"'),
        train=FINE_AND_BAD,
        counted=["1 row: no annotator has answered tone (Argilla)"],
    ),
]

INDICATORS = [
    Published(
        name="lists of 0 and 1",
        files={
            "train.jsonl": json_lines(
                {"text": "a", "label": [0, 1, 0]}, {"text": "b", "label": [1, 1, 0]}, {"text": "c", "label": [0, 0, 0]}
            )
        },
        keys=(*SEVERAL, 'train = "train.jsonl"', "dev = 0.4"),
        train=[("a", ("fear",)), ("b", ("joy", "fear")), ("c", ())],
    ),
    Published(
        name="lists in which a number stands twice",
        files={"train.jsonl": json_lines({"text": "a", "label": [0, 1, 0]}, {"text": "b", "label": [2]})},
        keys=(*SEVERAL, 'train = "train.jsonl"', "dev = 0.4"),
        message="train.jsonl:1: a list of labels must name each label once, or in all rows have a 0 or a 1 for each",
    ),
]

ALL = [
    *(*LABELLED_TABLES, *GLUE, *SOME_ROWS, *LABELS_ELSEWHERE),
    *(*JSON_AND_PARQUET, *EXPORTS, *INDICATORS),
]


def write_files(published: Published, folder: Path) -> None:
    """Writes the files, and a `tasks.toml`."""
    for name, content in published.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pd.DataFrame):
            content.to_csv(path, sep="\t" if name.endswith(".tsv") else ",", index=False)
        elif isinstance(content, datasets.Dataset):
            content.to_parquet(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    keys = "\n".join((f"[tasks.{published.task}]", *published.keys))
    (folder / "tasks.toml").write_text(keys if published.keys else GLUE_FILE.read_text())


def read_tables_of(name: str, folder: Path) -> tuple[Task, Table, Table]:
    """Returns a task of a folder, its train and its dev rows."""
    task = data_tasks(folder)[name]
    tables = read_all(find_row_sources(config_of({name: task}), folder), folder)
    return task, tables[name, "train"], tables[name, "dev"]


def rows_of(task: Task, table: Table) -> list[TextsAndLabel]:
    """Returns the texts of each row and its label, by name."""
    if task.is_regression:
        labels: list[object] = [round(float(label), 3) for label in table.labels]
    elif task.kind_entry.has_several_labels:
        labels = [tuple(name for name, has in zip(task.labels, own, strict=True) if has) for own in table.labels]
    else:
        labels = [task.names_of(label) for label in table.labels]
    return [(*texts, label) for *texts, label in zip(*table.texts, labels, strict=True)]


@pytest.mark.parametrize("published", [own for own in ALL if not own.message], ids=lambda own: own.name)
def test_published_files_are_read_as_their_authors_mean_them(published: Published, tmp_path: Path) -> None:
    write_files(published, tmp_path)
    task, train, dev = read_tables_of(published.task, tmp_path)
    if published.dev is None:
        assert sorted(rows_of(task, train) + rows_of(task, dev)) == sorted(published.train)
    else:
        assert rows_of(task, train) == list(published.train)
        assert rows_of(task, dev) == list(published.dev)
    lines = "\n".join([*train.skipped, *train.left_out])
    assert [part for part in published.counted if part not in lines] == []
    assert bool(published.counted) == bool(lines), "every row that is not used is counted"
    tool = published.name.partition(",")[0]
    is_recognised = tool in ("Argilla", "Prodigy", "spaCy", "Label Studio") and "train.csv" not in published.files
    if is_recognised and "train.tsv" not in published.files:
        assert f"an export of {tool}, read as it means its rows" in train.notes[0]
    else:
        assert train.notes == ()


@pytest.mark.parametrize("published", [own for own in ALL if own.message], ids=lambda own: own.name)
def test_keys_that_cannot_be_right_are_refused(published: Published, tmp_path: Path) -> None:
    write_files(published, tmp_path)
    assert published.message in one_line_error(read_tables_of, published.task, tmp_path)
