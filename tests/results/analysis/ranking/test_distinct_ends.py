"""Short names: the shortest ends that tell names apart."""

from results.analysis.ranking.distinct_ends import distinct_ends


def test_ends_of_paths_are_as_long_as_needed_to_differ() -> None:
    assert distinct_ends(["/x/a/one", "/x/b/one", "/x/b/two"]) == ["a/one", "b/one", "b/two"]
    assert distinct_ends(["/x/one", "/x/two/"]) == ["one", "two"]
    assert distinct_ends(["one"]) == ["one"]
    assert distinct_ends(["/one", "/x/one", "s3://b/y/one"]) == ["/one", "x/one", "y/one"]


def test_ends_of_dotted_keys() -> None:
    keys = ["optimizer.learning_rate", "optimizer.head_learning_rate", "encoder.dropout"]
    assert distinct_ends(keys, ".") == ["learning_rate", "head_learning_rate", "dropout"]
    assert distinct_ends(["tasks.sst.loss", "tasks.qqp.loss", "model"], ".") == ["sst.loss", "qqp.loss", "model"]
    assert distinct_ends([], ".") == []
