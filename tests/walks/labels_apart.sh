# # Labels in a separate file, with gaps
#
# The vectors are in one file, and the labels in another: exported by somebody else, in another order, not for all rows.
# Here are two such files to try it with. The labels have semicolons, as in many countries.
python3 <<'PYTHON'
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
dialect = rng.choice(["north", "south"], 3000)
X = rng.normal(size=(3000, 12)).astype("float32")
X[:, 0] += 2.0 * (dialect == "south")
pd.DataFrame({"id": range(3000), "emb": list(X)}).to_parquet("vectors.parquet")
labels = pd.DataFrame({"id": range(3000), "dialect": dialect}).sample(2700, random_state=0)
labels.loc[labels["id"] % 50 == 0, "dialect"] = None
labels.to_csv("labels.csv", sep=";", index=False)
PYTHON
head -3 labels.csv
# ## Row by row is not enough
#
# Without a key, labels are taken in the order of the rows. Another length or another order is noticed:
unspot fit vectors.parquet --labels labels.csv --concept dialect -m leace -o dialect.safetensors || echo "exit code $?"
# ## By key
#
# `--set key=id` names a column of both files. Rows without a label are an error, unless you leave them out with
# `--set drop_missing=true`, which says how many there are.
unspot fit vectors.parquet --labels labels.csv --set key=id --set drop_missing=true --concept dialect -m leace -o dialect.safetensors
#
# New rows come with their own labels: `unspot evaluate` and `unspot certify` take the same options.
