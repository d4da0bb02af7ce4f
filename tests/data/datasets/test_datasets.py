import hashlib

from dpgnn.data import datasets


def test_provenance_tells_the_checksum_of_the_file_here_where_nobody_publishes_one(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("DPGNN_MIRROR", raising=False)
    assert datasets.provenance("dblp", tmp_path)["raw_sha256"] == {"dblp.npz": ""}
    path = tmp_path / "dblp" / "raw" / "dblp.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a file")
    found = datasets.provenance("dblp", tmp_path)
    assert found["raw_sha256"] == {"dblp.npz": hashlib.sha256(b"a file").hexdigest()}
    published = datasets.provenance("photo", tmp_path)["raw_sha256"]
    assert next(iter(published.values())).startswith("f0552bc8")


def test_provenance_names_origin_licence_citation_and_caveats(tmp_path):
    found = datasets.provenance("facebook-Rutgers89", tmp_path)
    assert found["caveats"] == ["preprocessing"]
    assert found["redistribute"] == "no"
    assert "traud2012facebook" in found["citation"]
    assert datasets.provenance("chains-s", tmp_path)["origin"] == ["made by dpgnn"]
