"""Serves a bundle over HTTP, with one loaded ensemble for each of its tasks.

python results/predict.py SWEEP --bundle my-bundle
pip install fastapi uvicorn
python examples/serve.py my-bundle --port 8000
curl localhost:8000/sst -H 'Content-Type: application/json' -d '{"texts": [["a fine and moving film"]]}'
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from results.inference.predictor import predict_stream
from results.inference.readers import TextRow
from results.inference.writers import column_names, row_values
from results.load import load


class Request(BaseModel):
    """Rows of one text, or of two where the task compares texts."""

    texts: list[list[str]]


def make_app(folder: Path) -> FastAPI:
    """The service of the bundle in a folder: `GET /` lists its tasks, `POST /TASK` predicts rows."""
    app = FastAPI(title=folder.name)
    predictors = load(folder).predictors

    @app.get("/")
    def tasks() -> dict[str, int]:
        return {name: len(own.task.text_columns) for name, own in predictors.items()}

    @app.post("/{task}")
    def predict(task: str, request: Request) -> list[dict[str, Any]]:
        if task not in predictors:
            raise HTTPException(404, f"no task '{task}'; known: {', '.join(predictors)}")
        own = predictors[task]
        wanted = len(own.task.text_columns)
        if any(len(row) != wanted or not all(map(str.strip, row)) for row in request.texts):
            raise HTTPException(422, f"each row of texts must have {wanted} that are not blank")
        try:
            rows = [TextRow(where=f"row {at}", id=str(at), texts=tuple(row)) for at, row in enumerate(request.texts)]
        except ValueError as error:  # half of an emoji
            raise HTTPException(422, str(error)) from error
        outputs = [found for _, found in predict_stream(own, rows)]
        values = row_values(own.task, rows, np.concatenate(outputs)) if rows else []
        return [dict(zip(column_names(own.task), row, strict=True)) for row in values]

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    uvicorn.run(make_app(options.bundle), host=options.host, port=options.port)
