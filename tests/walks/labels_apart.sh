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
# ## Judge on other rows
#
# New rows come with their own labels. `evaluate` and `certify` take the same options.
python3 <<'PYTHON'
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
dialect = rng.choice(["north", "south"], 4000)
X = rng.normal(size=(4000, 12)).astype("float32")
X[:, 0] += 2.0 * (dialect == "south")
pd.DataFrame({"id": range(4000), "emb": list(X)}).to_parquet("new.parquet")
pd.DataFrame({"id": range(4000), "dialect": dialect}).sample(3900, random_state=0).to_csv("new.tsv", sep="\t", index=False)
PYTHON
unspot certify dialect.safetensors new.parquet --labels new.tsv --set key=id --set drop_missing=true --budget quick --margin 0.1
