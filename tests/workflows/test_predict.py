"""Tables of predictions as files."""

import pyarrow as pa
import pytest

from naysay.workflows.predict import write_table


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1"])
def test_formulas_are_escaped_on_request_and_numbers_are_not(tmp_path, text):
    table = pa.table({"id": [text, "a=b"], "P(a)": [-0.5, 1e-9]})
    path = tmp_path / "p.csv"
    write_table(table, path)
    assert f"\n{text},-0.5\n" in path.read_text("utf-8")
    write_table(table, path, safe_csv=True)
    assert path.read_text("utf-8") == f"id,P(a)\n'{text},-0.5\na=b,1e-09\n"
