"""The help of the command line: it teaches by example and names every flag."""

from sweeps.cli.flags import build_parser


def test_help_teaches_by_example_within_120_columns() -> None:
    text = build_parser().format_help()
    assert "python sweeps/run.py --space smart_lambda --dry-run" in text
    assert "exit codes: 0" in text
    assert max(map(len, text.splitlines())) <= 120


def test_help_says_what_is_shared_where_no_stage_is_kept() -> None:
    said = " ".join(build_parser().format_help().split())
    assert "together (default: 20); with 0 no stage is kept or taken, only whole trials are" in said


def test_help_names_every_flag_of_the_parser() -> None:
    parser = build_parser()
    text = parser.format_help()
    flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    assert len(flags) == 28
    assert all(f"  {flag}" in text or f", {flag}" in text for flag in flags)
