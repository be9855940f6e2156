"""The tiny data with extra data in several roles and augmentation."""

from pathlib import Path


def write_further_data(tiny_folder: Path, folder: Path) -> None:
    """Copies the tiny data into a folder and adds the extra data."""
    for path in tiny_folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    reviews = [f"{row}\tc{row}\ta {('bad', 'good')[row % 2]} film {'very ' * row}\t{row % 2}" for row in range(17)]
    (folder / "ids-cfimdb-train.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *reviews]) + "\n")
    for name, animal in (("snli", "dog"), ("same-snli", "dog"), ("other-snli", "cat")):
        (folder / f"{name}{'' if name != 'snli' else '-train'}.csv").write_text(pairs(animal))
    texts = [
        f'{{"id": "w{row}", "sentence": "not a dull film {"old " * row}", "sentiment": {row % 5}}}' for row in range(9)
    ]
    (folder / "reworded.jsonl").write_text("\n".join(texts) + "\n")


def pairs(animal: str) -> str:
    """Rows of pairs; a column called `same` repeats the column before it."""
    lines = ["id\tsame_id\tsentence1\tsame1\tsentence2\tlabel\tsame_label\tturned_label"]
    for row in range(29):
        first, second = f"the {animal} runs", f"the {('cat', 'dog', 'car')[row % 3]} runs"
        lines.append(f"n{row}\tn{row}\t{first}\t{first}\t{second}\t{row % 3}\t{row % 3}\t{2 - row % 3}")
    return "\n".join(lines) + "\n"
